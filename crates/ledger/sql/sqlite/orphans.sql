-- Of one upstream, the oldest first.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
left join owners on owners.owner = effects.owner
where effects.upstream = ?1 and (effects.due_ms <= ?2 or (effects.needs_owner and owners.beat_ms < ?3))
order by effects.due_ms
limit ?4
