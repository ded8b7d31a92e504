-- The latest decisions about calls of a run, and its latest denials.
select ticket_id, decided_ms, state
from (
    select ticket_id, decided_ms, state from tickets
    where run = ?1 and state in ('approved', 'denied', 'consumed', 'lapsed') and decided_ms is not null
    order by decided_ms desc limit ?2
) as listed
union
select ticket_id, decided_ms, state
from (
    select ticket_id, decided_ms, state from tickets
    where run = ?1 and state = 'denied' and decided_ms is not null
    order by decided_ms desc limit ?3
) as listed
