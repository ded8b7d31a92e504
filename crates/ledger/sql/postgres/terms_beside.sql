-- What the records are found by, only beside an effect that was written. Sorted.
insert into call_terms (term, span, writer)
select distinct term::integer, span, pg_backend_pid()
from unnest($1::term_beside[]) as noted
where noted.effect_id is null or noted.effect_id in (select written.effect_id from written)
order by 1, 2
on conflict (term, span, writer) do nothing
