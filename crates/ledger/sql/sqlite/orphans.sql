-- Effects that a process has to look after: due, and either no process has to be gone for it, or its owner is silent, or the owner
-- is the process that asks. The columns are those of `effect_columns`.
select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
from effects
left join owners on owners.owner = effects.owner
where state in ('claimed', 'dispatching') and due_ms <= ?1
    and (not needs_owner or beat_ms is null or beat_ms < ?2 or effects.owner = ?3)
order by due_ms
limit ?4
