-- Answers that were kept back, only beside an effect that was written.
insert into quarantine (call_id, bytes_total, body)
select call_id, bytes_total, body
from unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[]) as answer (effect_id, call_id, bytes_total, body)
where answer.effect_id is null or answer.effect_id in (select written.effect_id from written)
on conflict (call_id) do nothing
