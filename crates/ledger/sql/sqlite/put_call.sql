insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
on conflict (call_id) do update
set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
