-- New effects, unless somebody was first or a blind retry has a twin. Sorted by key, so that no two batches wait for each other's.
insert into effects (effect_id, key_digest, tenant, principal, request, state, epoch, revision, owner, needs_owner, due_ms,
    expires_ms, body, arguments, answer, record)
select fresh.effect_id, fresh.key_digest, fresh.tenant, fresh.principal, fresh.request, fresh.state, fresh.epoch, 1,
    fresh.owner, fresh.needs_owner, fresh.due_ms, fresh.expires_ms, fresh.body, fresh.arguments, fresh.answer,
    fresh.record
from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[], $7::bigint[], $8::text[],
    $9::boolean[], $10::bigint[], $11::bigint[], $12::text[], $13::bytea[], $14::bytea[], $15::text[], $16::boolean[])
    as fresh (effect_id, key_digest, tenant, principal, request, state, epoch, owner, needs_owner, due_ms, expires_ms,
    body, arguments, answer, record, keyless)
where not fresh.keyless or not exists (
    select 1 from effects as twin
    where twin.state = 'outcome_unknown' and twin.request = fresh.request and twin.tenant = fresh.tenant
        and twin.principal = fresh.principal
)
on conflict (key_digest) do nothing
returning effect_id
