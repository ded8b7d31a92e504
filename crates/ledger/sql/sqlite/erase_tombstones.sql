delete from effects
where effect_id in (select effect_id from effects where state = 'expired' and expires_ms <= ?1 order by expires_ms limit ?2)
    and state = 'expired'
