-- A whole batch in one statement: new effects unless somebody was first or a blind retry has a twin, changed ones only if they
-- are still what was read, and records only beside an effect that was written (I6). What comes back was written; what does
-- not was not. The arrays are sorted, by key and by call, so that no two batches wait for each other's.
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
changed as (
    update effects
    set state = after.state, epoch = after.epoch, revision = after.revision_before + 1, owner = after.owner,
        needs_owner = after.needs_owner, due_ms = after.due_ms, expires_ms = after.expires_ms, body = after.body,
        arguments = after.arguments, answer = after.answer
    from unnest($19::text[], $20::text[], $21::bigint[], $22::text[], $23::boolean[], $24::bigint[], $25::bigint[],
        $26::text[], $27::bytea[], $28::bytea[], $29::bigint[], $30::text[], $31::bigint[]) as after (effect_id, state,
        epoch, owner, needs_owner, due_ms, expires_ms, body, arguments, answer, epoch_before, state_before, revision_before)
    where effects.effect_id = after.effect_id and effects.epoch = after.epoch_before and effects.state = after.state_before
        and effects.revision = after.revision_before
    returning effects.effect_id
),
written as (
    select effect_id from new
    union all
    select effect_id from changed
),
recorded as (
    insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
    select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record
    from unnest($32::text[], $33::text[], $34::text[], $35::text[], $36::text[], $37::text[], $38::text[], $39::bigint[],
        $40::bigint[], $41::text[]) as call (effect_id, call_id, tenant, principal, tool, outcome, class, received_ms,
        finished_ms, record)
    where call.effect_id is null or call.effect_id in (select written.effect_id from written)
    on conflict (call_id) do update
    set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
    where calls.outcome in ('dispatching', 'task_created')
),
kept as (
    insert into quarantine (call_id, bytes_total, body)
    select call_id, bytes_total, body
    from unnest($42::text[], $43::text[], $44::bigint[], $45::bytea[]) as answer (effect_id, call_id, bytes_total, body)
    where answer.effect_id is null or answer.effect_id in (select written.effect_id from written)
    on conflict (call_id) do nothing
)
select effect_id, (extract(epoch from clock_timestamp()) * 1000)::bigint as clock_ms from written
