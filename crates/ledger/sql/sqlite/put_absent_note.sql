insert into notes (kind, key, value, expires_ms) values (?1, ?2, ?3, ?4)
on conflict (kind, key) do update set value = excluded.value, expires_ms = excluded.expires_ms
where notes.expires_ms <= ?5
