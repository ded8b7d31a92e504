-- The record of a call that is not its effect's any more. One that is there by itself is the later one, unless it has not ended.
insert into calls (call_id, outcome, received_ms, body, effect_id)
values ($1, $2, $3, $4, $5)
on conflict (call_id) do update
set outcome = excluded.outcome, class = null, finished_ms = null, record = null, body = excluded.body, effect_id = excluded.effect_id
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
