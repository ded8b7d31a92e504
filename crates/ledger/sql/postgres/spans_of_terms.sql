-- The newest spans within a range in which there were calls of one term, and of five others if they are given.
select span
from call_terms as listed
where term = $1 and span between $2 and $3
    and ($5::integer is null or exists (select 1 from call_terms as also where also.term = $5 and also.span = listed.span))
    and ($6::integer is null or exists (select 1 from call_terms as also where also.term = $6 and also.span = listed.span))
    and ($7::integer is null or exists (select 1 from call_terms as also where also.term = $7 and also.span = listed.span))
    and ($8::integer is null or exists (select 1 from call_terms as also where also.term = $8 and also.span = listed.span))
    and ($9::integer is null or exists (select 1 from call_terms as also where also.term = $9 and also.span = listed.span))
group by span
order by span desc
limit $4
