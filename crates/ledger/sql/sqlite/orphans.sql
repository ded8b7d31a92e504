-- Effects of one upstream that a process has to look after: due, and either no process has to be gone for it, or its owner is silent,
-- or the owner is the process that asks. The oldest first.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
left join owners on owners.owner = effects.owner
where effects.upstream = ?1 and effects.due_ms <= ?2
    and (not effects.needs_owner or owners.beat_ms is null or owners.beat_ms < ?3 or effects.owner = ?5)
order by effects.due_ms
limit ?4
