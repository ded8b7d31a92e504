-- How many of the newest spans of a term there are within a range, up to a limit, and the oldest of them.
select count(*), min(span)
from (select span from call_terms where term = $1 and span between $2 and $3 order by span desc limit $4) as listed
