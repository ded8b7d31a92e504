-- The condition is written as its index has it, else that is not used. What a reservation is still open for is kept: without it
-- nobody could tell whether it was ever begun.
select effect_id, state, epoch, body, arguments, answer
from effects
where (state = 'completed' or state = 'failed_final' or state = 'failed_retryable' or state = 'compensated') and expires_ms <= ?1
    and not exists (select 1 from holds where holds.effect_id = effects.effect_id and holds.stage = 'open')
order by expires_ms
limit ?2
