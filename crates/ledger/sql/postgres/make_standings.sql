-- Accounts that nobody has drawn on yet have no row that could be locked: they get one first, in one order.
insert into standings (account, tenant, changed_ms, expires_ms, body)
select account, tenant, changed_ms, expires_ms, body
from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::text[]) as new (account, tenant, changed_ms, expires_ms, body)
order by account
on conflict (account) do nothing
