insert into call_terms (term, span) values (?1, ?2)
on conflict (term, span) do nothing
