-- Answers that were kept back, only beside an effect that was written.
insert into quarantine (call_id, bytes_total, body)
select call_id, bytes_total, body
from unnest($1::quarantine_beside[]) as answer
where answer.effect_id is null or answer.effect_id in (select written.effect_id from written)
