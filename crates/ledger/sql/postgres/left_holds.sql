-- Reservations of a stretch of time that something can be done about: their effect has ended, or was never begun in all that time, or others have reserved
-- for it too. With each, what the effect says, and which others. They are locked before their accounts are, like those of every entry;
-- what somebody is at work on is left for the next time.
select holds.hold_id, holds.stage, holds.body, effects.state, effects.body,
    (
        select string_agg(other.hold_id, ' ') from holds as other
        where other.effect_id = holds.effect_id and other.stage <> 'refunded' and other.hold_id <> holds.hold_id
    ) as others
from holds
left join effects on effects.effect_id = holds.effect_id
where holds.stage = 'open' and holds.kind = 'reservation' and holds.opened_ms between $3 and $4
    and (
        effects.state in ('completed', 'failed_final', 'failed_retryable', 'compensated', 'expired')
        or (effects.state is null and holds.opened_ms <= $1)
        or exists (
            select 1 from holds as other
            where other.effect_id = holds.effect_id and other.stage <> 'refunded' and other.hold_id <> holds.hold_id
        )
    )
order by holds.opened_ms
limit $2
for update of holds skip locked
