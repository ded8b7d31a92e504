-- The condition is written as its index has it, else that is not used.
select effect_id, state, epoch, body, arguments, answer
from effects
where (state = 'completed' or state = 'failed_final' or state = 'failed_retryable' or state = 'compensated') and expires_ms <= ?1
order by expires_ms
limit ?2
