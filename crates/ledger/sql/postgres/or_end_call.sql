-- A call that is on record already is finished once.
on conflict (call_id) do update
set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
