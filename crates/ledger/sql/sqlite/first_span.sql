-- The oldest span in which there was a call of a term.
select span from call_terms where term = ?1 order by span limit 1
