-- As `write_batch`, of a batch in which every effect is new and no answer was kept back.
with new as (
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
),
recorded as (
    insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
    select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record
    from unnest($19::text[], $20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::bigint[],
        $27::bigint[], $28::text[]) as call (effect_id, call_id, tenant, principal, tool, outcome, class, received_ms,
        finished_ms, record)
    where call.effect_id is null or call.effect_id in (select new.effect_id from new)
    on conflict (call_id) do update
    set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
    where calls.outcome in ('dispatching', 'task_created')
)
select effect_id, (extract(epoch from clock_timestamp()) * 1000)::bigint as clock_ms from new
