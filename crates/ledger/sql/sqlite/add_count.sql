-- A sum stays at the largest number there is.
insert into call_counts (tenant, width_ms, start_ms, measure, amount) values (?1, ?2, ?3, ?4, ?5)
on conflict (tenant, width_ms, start_ms, measure) do update
set amount = amount + min(excluded.amount, 9223372036854775807 - amount)
