delete from holds where hold_id in (select hold_id from holds where expires_ms <= ?1 order by expires_ms limit ?2)
