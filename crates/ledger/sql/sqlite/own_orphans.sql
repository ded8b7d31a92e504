-- Effects of one upstream whose lease has ended and whose owner is the process that asks, which may hold them still. The oldest first.
select effect_id, state, epoch, body, arguments, answer
from effects
where upstream = ?1 and due_ms <= ?2 and needs_owner and owner = ?4
order by due_ms, effect_id
limit ?3
