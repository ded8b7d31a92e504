-- Effects of one upstream that a process has to look after: due, and either no process has to be gone for it or its owner is silent.
-- Those of the process that asks are apart. The oldest first, after the place that is given.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
left join owners on owners.owner = effects.owner
where effects.upstream = ?1 and effects.due_ms <= ?2 and (effects.due_ms, effects.effect_id) > (?6, ?7)
    and (not effects.needs_owner or (effects.owner <> ?5 and (owners.beat_ms is null or owners.beat_ms < ?3)))
order by effects.due_ms, effects.effect_id
limit ?4
