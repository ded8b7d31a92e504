-- Effects that a process has to look after: due, and either no process has to be gone for it, or its owner is silent, or the owner
-- is the process that asks. At most so many of every upstream that they need, the oldest first. Each upstream is found by the index from the one
-- before it.
with recursive needed (upstream) as (
    (select upstream from effects where upstream is not null order by upstream limit 1)
    union all
    select (select later.upstream from effects as later where later.upstream > needed.upstream order by later.upstream limit 1)
    from needed
    where needed.upstream is not null
)
select orphan.effect_id, orphan.state, orphan.epoch, orphan.body, orphan.arguments, orphan.answer
from (select upstream from needed where upstream is not null limit $4) as lane
cross join lateral (
    select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer, effects.due_ms
    from effects
    left join owners on owners.owner = effects.owner
    where effects.upstream = lane.upstream and effects.due_ms <= $1
        and (not effects.needs_owner or owners.beat_ms is null or owners.beat_ms < $2 or effects.owner = $5)
    order by effects.due_ms
    limit $3
) as orphan
