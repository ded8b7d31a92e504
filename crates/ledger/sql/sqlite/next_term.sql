select min(term) from call_terms where term > ?1
