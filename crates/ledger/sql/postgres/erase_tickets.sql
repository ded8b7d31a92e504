-- They are locked by what finds them, so that they are still what they were.
delete from tickets
using (
    select ticket_id from tickets
    where changed_ms <= $1 and state in ('denied', 'auto_denied', 'superseded', 'consumed', 'lapsed')
    order by changed_ms
    limit $2
    for update skip locked
) as over
where tickets.ticket_id = over.ticket_id
