-- Calls that are under way, which are few.
select call_id, record, body
from open_calls
limit $1
