select start_ms, measure, amount
from call_counts
where tenant = ?1 and width_ms = ?2 and start_ms >= ?3 and start_ms < ?4
order by start_ms, measure
limit ?5
