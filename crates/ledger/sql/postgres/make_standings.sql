-- Accounts that nobody has drawn on yet have no row that could be locked: they get one first, in one order. One that is there is
-- locked by that too: else it could be forgotten before it is read, and what is drawn would be written nowhere.
insert into standings (account, tenant, changed_ms, expires_ms, body)
select account, tenant, changed_ms, expires_ms, body
from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[]) as new (account, tenant, changed_ms, expires_ms, body)
order by account
on conflict (account) do update set account = excluded.account where false
