delete from call_counts
where (tenant, width_ms, start_ms, measure, writer) in (
    select tenant, width_ms, start_ms, measure, writer from call_counts where start_ms < $1 order by start_ms limit $2
)
