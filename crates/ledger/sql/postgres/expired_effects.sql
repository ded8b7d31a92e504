-- What somebody is at work on is left for the next time. What a reservation is still open for is kept: without it nobody could
-- tell whether it was ever begun.
select effect_id, state, epoch, body, arguments, answer, revision
from effects
where state in ('completed', 'failed_final', 'failed_retryable', 'compensated') and expires_ms <= $1
    and not exists (select 1 from holds where holds.effect_id = effects.effect_id and holds.stage = 'open')
order by expires_ms
limit $2
for update skip locked
