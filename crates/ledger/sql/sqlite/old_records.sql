-- The next records by age, and which of them may go. What is unknown or under way stays: its row says of which effect (in rows of earlier
-- versions, its record does), and what is marked as sent and names none is left alone.
select call_id, received_ms,
    case
        when outcome in ('dispatching', 'unknown', 'task_created', 'input_required') then coalesce(
            not exists (
                select 1 from effects
                where effects.effect_id = case when calls.body is null then calls.record ->> '$.effect_id' else calls.effect_id end
                    and (effects.upstream is not null or effects.state = 'outcome_unknown')
            ) and (
                outcome <> 'dispatching'
                or case when calls.body is null then calls.record ->> '$.effect_id' else calls.effect_id end is not null
            ),
            false
        )
        else true
    end as may_go
from calls
where received_ms >= ?1 and received_ms < ?2
order by received_ms
limit ?3
