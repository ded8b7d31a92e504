select effect_id, request, tenant, principal
from effects
where state = 'outcome_unknown' and request = any ($1::bytea[])
order by effect_id
limit 1000
