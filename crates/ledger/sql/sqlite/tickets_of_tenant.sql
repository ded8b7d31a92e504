select ticket_id, key_digest, state, changed_ms, body, null
from tickets
where tenant = ?4 and state = ?1 and ticket_id < ?2
order by ticket_id desc
limit ?3
