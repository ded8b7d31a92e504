delete from tickets
where number in (
    select number from tickets
    where changed_ms <= ?1 and state in ('denied', 'auto_denied', 'superseded', 'consumed', 'lapsed')
    order by changed_ms
    limit ?2
)
