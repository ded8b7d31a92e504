-- What the records add to the counts, only beside an effect that was written. A sum stays at the largest number there is.
insert into call_counts (tenant, width_ms, start_ms, measure, writer, amount)
select tenant, width_ms, start_ms, measure, pg_backend_pid(), least(sum(amount), 9223372036854775807)::bigint
from unnest($1::count_beside[]) as counted
where counted.effect_id is null or counted.effect_id in (select written.effect_id from written)
group by tenant, width_ms, start_ms, measure
order by tenant, width_ms, start_ms, measure
on conflict (tenant, width_ms, start_ms, measure, writer) do update
set amount = call_counts.amount + least(excluded.amount, 9223372036854775807 - call_counts.amount)
