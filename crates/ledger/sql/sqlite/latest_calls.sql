-- The newest of those that have ended, by their index, and of the few that are under way.
select call_id, tool, outcome, class, received_ms, record
from (
    select call_id, tool, outcome, class, received_ms, record from calls order by received_ms desc, call_id desc limit ?1
) as ended
union all
select call_id, tool, outcome, class, received_ms, record from open_calls
order by received_ms desc, call_id desc
limit ?1
