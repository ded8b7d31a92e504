delete from notes
where (kind, key) in (select kind, key from notes where expires_ms <= ?1 order by expires_ms limit ?2)
