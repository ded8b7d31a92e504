-- The next records by age, and which of them may go. What is unknown or under way stays: its record says of which effect, and what is
-- marked as sent and names none is left alone.
select call_id, received_ms,
    case
        when outcome in ('dispatching', 'unknown', 'task_created', 'input_required') then coalesce(
            not exists (
                select 1 from effects
                where effects.effect_id = calls.record ->> '$.effect_id'
                    and (effects.upstream is not null or effects.state = 'outcome_unknown')
            ) and (outcome <> 'dispatching' or calls.record ->> '$.effect_id' is not null),
            false
        )
        else true
    end as may_go
from calls
where received_ms >= ?1 and received_ms < ?2
order by received_ms
limit ?3
