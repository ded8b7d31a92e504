select ticket_id, key_digest, state, changed_ms, body, arguments from tickets where key_digest = ?1 order by number desc limit 1
