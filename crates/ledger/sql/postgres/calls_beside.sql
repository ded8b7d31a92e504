-- Records, only beside an effect that was written (I6). Sorted by call.
insert into calls (call_id, outcome, received_ms, body, effect_id)
select call_id, outcome, received_ms, body, unsettled_effect_id
from unnest($1::call_beside[]) as call
where call.effect_id is null or call.effect_id in (select written.effect_id from written)
