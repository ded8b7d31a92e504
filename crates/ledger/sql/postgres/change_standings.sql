update standings set changed_ms = new.changed_ms, expires_ms = new.expires_ms, body = new.body
from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::text[]) as new (account, changed_ms, expires_ms, body)
where standings.account = new.account
