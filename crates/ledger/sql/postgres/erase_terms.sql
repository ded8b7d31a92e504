-- The oldest spans of a term before one of them.
delete from call_terms
where term = $1 and span in (select span from call_terms where term = $1 and span < $2 order by span limit $3)
