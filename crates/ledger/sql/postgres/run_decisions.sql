-- The latest decisions about calls of runs, and their latest denials.
select wanted.run, listed.ticket_id, listed.decided_ms, listed.state
from unnest($1::bytea[]) as wanted (run)
cross join lateral (
    (
        select ticket_id, decided_ms, state from tickets
        where tickets.run = wanted.run and state in ('approved', 'denied', 'consumed', 'lapsed') and decided_ms is not null
        order by decided_ms desc limit $2
    )
    union
    (
        select ticket_id, decided_ms, state from tickets
        where tickets.run = wanted.run and state = 'denied' and decided_ms is not null
        order by decided_ms desc limit $3
    )
) as listed
