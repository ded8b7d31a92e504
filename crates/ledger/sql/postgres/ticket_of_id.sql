select ticket_id, key_digest, state, changed_ms, body, arguments from tickets where ticket_id = $1
