-- The first tenant that calls were counted for, in the order of bytes from a name on.
select tenant from call_counts where tenant >= ?1 order by tenant limit 1
