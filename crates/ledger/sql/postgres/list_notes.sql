select key, value, expires_ms from notes
where kind = $1 and key > $2 and (expires_ms is null or expires_ms > $3)
order by key limit $4
