select listed.ticket_id, listed.key_digest, listed.state, listed.changed_ms, listed.body, null::bytea
from unnest($1::text[]) as wanted (state)
cross join lateral (
    select ticket_id, key_digest, state, changed_ms, body
    from tickets
    where tickets.tenant = $4 and tickets.state = wanted.state and ticket_id < $2
    order by ticket_id desc
    limit $3
) as listed
order by listed.ticket_id desc
limit $3
