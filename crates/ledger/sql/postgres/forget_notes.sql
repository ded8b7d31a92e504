delete from notes where expires_ms is not null and expires_ms <= $1
