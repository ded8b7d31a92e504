-- What some tenants have under way that keeps others from changing something.
select effects.effect_id, effects.tenant, effects.holds, effects.state = 'claimed', effects.due_ms, owners.beat_ms
from effects
left join owners on owners.owner = effects.owner
where effects.holds is not null and effects.tenant = any ($1::bytea[])
order by effects.effect_id
