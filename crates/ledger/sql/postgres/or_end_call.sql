-- A call that is on record already is finished once.
on conflict (call_id) do update
set outcome = excluded.outcome, class = null, finished_ms = null, record = null, body = excluded.body, effect_id = excluded.effect_id
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
