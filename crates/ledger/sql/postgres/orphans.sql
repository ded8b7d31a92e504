-- At most so many of every upstream that effects under way need, the oldest first. Each upstream is found by the index from the one
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
    where effects.upstream = lane.upstream
        and (effects.due_ms <= $1 or (effects.needs_owner and owners.beat_ms < $2))
    order by effects.due_ms
    limit $3
) as orphan
