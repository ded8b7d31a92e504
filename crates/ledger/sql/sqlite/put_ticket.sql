insert into tickets (
    ticket_id, key_digest, tenant, run, state, created_ms, decided_ms, due_ms, due_ledger_ms, changed_ms, body, arguments
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
