select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
left join owners on owners.owner = effects.owner
where effects.state in ('claimed', 'dispatching')
    and (effects.due_ms <= $1 or (effects.needs_owner and owners.beat_ms < $2))
order by effects.due_ms
limit $3
