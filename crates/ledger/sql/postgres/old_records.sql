-- The next records by age, and which of them may go. What is unknown or under way stays: its row says of which effect (in rows of earlier
-- versions, its record does), and what is marked as sent and names none is left alone.
select calls.call_id, calls.received_ms,
    case
        when calls.outcome in ('dispatching', 'unknown', 'task_created', 'input_required') then coalesce(
            not exists (
                select 1 from effects
                where effects.effect_id = kept.effect_id
                    and (effects.upstream is not null or effects.state = 'outcome_unknown')
            ) and (calls.outcome <> 'dispatching' or kept.effect_id is not null),
            false
        )
        else true
    end as may_go
from calls
cross join lateral (
    select case
        when calls.outcome in ('dispatching', 'unknown', 'task_created', 'input_required')
            then case
                when calls.body is null then cast(replace(calls.record, '\u0000', '\ufffd') as json) ->> 'effect_id'
                else calls.effect_id
            end
    end as effect_id
) as kept
where calls.received_ms >= $1 and calls.received_ms < $2
order by calls.received_ms
limit $3
