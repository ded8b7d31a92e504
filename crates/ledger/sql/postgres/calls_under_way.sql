-- Calls that are under way, which are few, within a span of time.
select call_id, received_ms, record
from open_calls
where received_ms >= $1 and received_ms <= $2
limit $3
