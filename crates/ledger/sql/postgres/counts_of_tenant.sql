select start_ms, measure, least(sum(amount), 9223372036854775807)::bigint
from call_counts
where tenant = $1 and width_ms = $2 and start_ms >= $3 and start_ms < $4
group by start_ms, measure
order by start_ms, measure
limit $5
