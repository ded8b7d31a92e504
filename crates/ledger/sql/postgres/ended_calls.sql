-- A page of the calls that have ended, newest first, within a span of time and behind the call where the page before ended.
select call_id, record, body
from calls
where received_ms >= $1 and (received_ms, call_id) < ($2, $3)
order by received_ms desc, call_id desc
limit $4
