-- The newest of the calls that have ended, by their index.
select call_id, record, body
from calls
order by received_ms desc, call_id desc
limit $1
