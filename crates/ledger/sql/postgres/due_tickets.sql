-- By the store's clock, and by ledger time if that clock was set back.
with due as (
    (select ticket_id, due_ms from tickets where due_ms <= $1 order by due_ms limit $3)
    union
    (select ticket_id, due_ms from tickets where due_ledger_ms <= $2 order by due_ledger_ms limit $3)
)
select ticket_id, key_digest, state, changed_ms, body, null::bytea
from tickets
where ticket_id = any (array(select ticket_id from due order by due_ms limit $3))
order by due_ms
