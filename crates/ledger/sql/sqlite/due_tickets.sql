-- By the store's clock, and by ledger time if that clock was set back.
with by_clock as (select number, due_ms from tickets where due_ms <= ?1 order by due_ms limit ?3),
by_ledger_time as (select number, due_ms from tickets where due_ledger_ms <= ?2 order by due_ledger_ms limit ?3),
due as (select number, due_ms from by_clock union select number, due_ms from by_ledger_time)
select ticket_id, key_digest, state, changed_ms, body, null
from due
cross join tickets on tickets.number = due.number
order by due.due_ms
limit ?3
