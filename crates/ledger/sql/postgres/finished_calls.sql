-- Which of these calls are on record already and have ended: what is written about them again changes nothing.
select call_id
from calls
where call_id = any ($1::text[]) and outcome <> 'dispatching' and outcome <> 'task_created'
