insert into holds (hold_id, kind, effect_id, stage, opened_ms, expires_ms, body) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (hold_id) do update set stage = excluded.stage, expires_ms = excluded.expires_ms, body = excluded.body
