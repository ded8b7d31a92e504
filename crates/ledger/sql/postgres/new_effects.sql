-- New effects, unless somebody was first or a blind retry has a twin. Sorted by key, so that no two batches wait for each other's.
insert into effects (effect_id, key_digest, tenant, principal, tool, contract_major, client_key, request, state, epoch,
    revision, owner, needs_owner, due_ms, expires_ms, body, arguments, answer)
select fresh.effect_id, fresh.key_digest, fresh.tenant, fresh.principal, fresh.tool, fresh.contract_major,
    fresh.client_key, fresh.request, fresh.state, fresh.epoch, 1, fresh.owner, fresh.needs_owner, fresh.due_ms,
    fresh.expires_ms, fresh.body, fresh.arguments, fresh.answer
from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bytea[], $8::bytea[],
    $9::text[], $10::bigint[], $11::text[], $12::boolean[], $13::bigint[], $14::bigint[], $15::text[], $16::bytea[],
    $17::bytea[], $18::boolean[]) as fresh (effect_id, key_digest, tenant, principal, tool, contract_major, client_key,
    request, state, epoch, owner, needs_owner, due_ms, expires_ms, body, arguments, answer, keyless)
where not fresh.keyless or not exists (
    select 1 from effects as twin
    where twin.state = 'outcome_unknown' and twin.request = fresh.request and twin.tenant = fresh.tenant
        and twin.principal = fresh.principal
)
on conflict (key_digest) do nothing
returning effect_id
