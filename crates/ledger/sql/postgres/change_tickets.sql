-- They are locked, so that they are what they were read as. What a ticket is about never changes.
update tickets
set state = new.state, decided_ms = new.decided_ms, due_ms = new.due_ms, due_ledger_ms = new.due_ledger_ms,
    changed_ms = new.changed_ms, body = new.body
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
    as new (ticket_id, state, decided_ms, due_ms, due_ledger_ms, changed_ms, body)
where tickets.ticket_id = new.ticket_id
