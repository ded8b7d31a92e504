delete from effects
using unnest($1::text[], $2::bigint[], $3::text[]) as over (effect_id, epoch, state)
where effects.effect_id = over.effect_id and effects.epoch = over.epoch and effects.state = over.state
