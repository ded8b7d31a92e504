-- Effects that a process has to look after: due, and either no process has to be gone for it or its owner is silent; and apart from
-- them those whose lease has ended and whose owner is the process that asks. At most so many of every upstream that they need, the oldest first,
-- after the place that is given for the upstream. Each upstream is found by the index from the one before it.
with recursive needed (upstream) as (
    (select upstream from effects where upstream is not null order by upstream limit 1)
    union all
    select (select later.upstream from effects as later where later.upstream > needed.upstream order by later.upstream limit 1)
    from needed
    where needed.upstream is not null
),
lanes as (
    select needed.upstream, coalesce(after.due_ms, -1) as after_ms, coalesce(after.effect_id, '') as after_id
    from (select upstream from needed where upstream is not null limit $4) as needed
    left join unnest($6::text[], $7::bigint[], $8::text[]) as after (upstream, due_ms, effect_id) on after.upstream = needed.upstream
)
select orphan.effect_id, orphan.state, orphan.epoch, orphan.body, orphan.arguments, orphan.answer
from lanes
cross join lateral (
    (
        select effects.effect_id, effects.state, effects.epoch, effects.body, effects.arguments, effects.answer
        from effects
        left join owners on owners.owner = effects.owner
        where effects.upstream = lanes.upstream and effects.due_ms <= $1 and effects.due_ms >= lanes.after_ms
            and (effects.due_ms, effects.effect_id) > (lanes.after_ms, lanes.after_id)
            and (not effects.needs_owner or (effects.owner <> $5 and (owners.beat_ms is null or owners.beat_ms < $2)))
        order by effects.due_ms, effects.effect_id
        limit $3
    )
    union all
    (
        select effect_id, state, epoch, body, arguments, answer
        from effects
        where upstream = lanes.upstream and due_ms <= $1 and needs_owner and owner = $5
        order by due_ms, effect_id
        limit $3
    )
) as orphan
