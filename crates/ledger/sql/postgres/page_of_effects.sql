-- Effects in the order of their handles, behind one of them. The columns are those of `effect_columns`.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
where effect_id > $1
order by effect_id
limit $2
