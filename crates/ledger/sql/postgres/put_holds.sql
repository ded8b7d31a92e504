-- What is there was locked, so that it is changed by nobody else; what is not is new, or fails and is read for again.
with changed as (
    update holds set stage = new.stage, expires_ms = new.expires_ms, body = new.body
    from unnest($1::text[], $4::text[], $6::bigint[], $7::text[], $8::bool[]) as new (hold_id, stage, expires_ms, body, is_new)
    where holds.hold_id = new.hold_id and not new.is_new
)
insert into holds (hold_id, kind, effect_id, stage, opened_ms, expires_ms, body)
select hold_id, kind, effect_id, stage, opened_ms, expires_ms, body
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::bool[])
    as new (hold_id, kind, effect_id, stage, opened_ms, expires_ms, body, is_new)
where is_new
