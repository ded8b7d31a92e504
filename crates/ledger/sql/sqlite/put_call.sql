insert into calls (call_id, tenant, principal, tool, outcome, received_ms, record, body, effect_id)
values (?1, '', '', '', ?2, ?3, '', ?4, ?5)
on conflict (call_id) do update
set outcome = excluded.outcome, class = null, finished_ms = null, record = '', body = excluded.body, effect_id = excluded.effect_id
where calls.outcome in ('dispatching', 'task_created') and excluded.outcome <> 'dispatching'
