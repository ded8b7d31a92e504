-- What a ticket is about never changes.
update tickets
set state = ?2, decided_ms = ?3, due_ms = ?4, due_ledger_ms = ?5, changed_ms = ?6, body = ?7
where ticket_id = ?1
