insert into owners (owner, beat_ms) values ($1, $2) on conflict (owner) do update set beat_ms = excluded.beat_ms
