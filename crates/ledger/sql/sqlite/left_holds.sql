-- Reservations that something can be done about: their effect has ended, or was never begun in all that time, or a later call has
-- reserved for it too. With each, what the effect says and whether that is so.
select * from (
    select holds.hold_id, holds.stage, holds.body, effects.state, holds.opened_ms,
        exists (
            select 1 from holds as later
            where later.effect_id = holds.effect_id and later.stage <> 'refunded'
                and (later.opened_ms, later.hold_id) > (holds.opened_ms, holds.hold_id)
        ) as superseded
    from holds
    left join effects on effects.effect_id = holds.effect_id
    where holds.stage = 'open' and holds.kind = 'reservation'
) as left_open
where superseded
    or state in ('completed', 'failed_final', 'failed_retryable', 'compensated', 'expired')
    or (state is null and opened_ms <= ?1)
order by opened_ms
limit ?2
