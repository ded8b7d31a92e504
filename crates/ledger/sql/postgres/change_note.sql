update notes
set value = $3, expires_ms = $4
where kind = $1 and key = $2 and value = $6 and (expires_ms is null or expires_ms > $5)
