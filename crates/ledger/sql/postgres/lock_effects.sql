-- All effects that a batch is about, locked in one order, so that no two batches wait for each other.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer,
    effects.revision, owners.beat_ms, effects.record, effects.open_record
from effects
left join owners on owners.owner = effects.owner
where effects.key_digest = any ($1::bytea[]) or effects.effect_id = any ($2::text[])
order by effects.effect_id
for update of effects
