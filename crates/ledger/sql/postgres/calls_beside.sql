-- Records, only beside an effect that was written (I6). Sorted by call.
insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record
from unnest($1::call_beside[]) as call
where call.effect_id is null or call.effect_id in (select written.effect_id from written)
