-- What somebody is at work on is left for the next time.
select effect_id, state, epoch, body, arguments, answer, revision
from effects
where state in ('completed', 'failed_final', 'failed_retryable', 'compensated') and expires_ms <= $1
order by expires_ms
limit $2
for update skip locked
