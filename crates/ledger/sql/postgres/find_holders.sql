-- What some tenants have under way that keeps others from changing something.
select effect_id, tenant, holds, holds_until_ms
from effects
where tenant = any ($1::bytea[]) and holds_until_ms > (select ledger_ms from clock)
order by effect_id
