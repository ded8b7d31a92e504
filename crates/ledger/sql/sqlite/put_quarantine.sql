insert into quarantine (call_id, bytes_total, body) values (?1, ?2, ?3) on conflict (call_id) do nothing
