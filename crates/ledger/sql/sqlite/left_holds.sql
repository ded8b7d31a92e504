-- Reservations of a stretch of time that something can be done about: their effect has ended, or was never begun in all that time, or
-- others have reserved for it too. With each, what the effect says, and which others.
select * from (
    select holds.hold_id, holds.stage, holds.body, effects.state, effects.body as effect,
        (
            select group_concat(other.hold_id, ' ') from holds as other
            where other.effect_id = holds.effect_id and other.stage <> 'refunded' and other.hold_id <> holds.hold_id
        ) as others,
        holds.opened_ms
    from holds
    left join effects on effects.effect_id = holds.effect_id
    where holds.stage = 'open' and holds.kind = 'reservation' and holds.opened_ms between ?3 and ?4
) as left_open
where others is not null
    or state in ('completed', 'failed_final', 'failed_retryable', 'compensated', 'expired')
    or (state is null and opened_ms <= ?1)
order by opened_ms
limit ?2
