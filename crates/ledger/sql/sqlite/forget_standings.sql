delete from standings where account in (select account from standings where expires_ms <= ?1 order by expires_ms limit ?2)
