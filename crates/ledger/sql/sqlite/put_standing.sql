insert into standings (account, tenant, changed_ms, expires_ms, body) values (?1, ?2, ?3, ?4, ?5)
on conflict (account) do update
set changed_ms = excluded.changed_ms, expires_ms = excluded.expires_ms, body = excluded.body
