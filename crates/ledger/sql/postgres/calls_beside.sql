-- Records, only beside an effect that was written (I6). Sorted by call.
insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
    $9::bigint[], $10::text[]) as call (effect_id, call_id, tenant, principal, tool, outcome, class, received_ms,
    finished_ms, record)
where call.effect_id is null or call.effect_id in (select written.effect_id from written)
on conflict (call_id) do update
set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
