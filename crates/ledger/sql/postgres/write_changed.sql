-- As `write_batch`, of a batch in which no effect is new and no answer was kept back.
with changed as (
    update effects
    set state = after.state, epoch = after.epoch, revision = after.revision_before + 1, owner = after.owner,
        needs_owner = after.needs_owner, due_ms = after.due_ms, expires_ms = after.expires_ms, body = after.body,
        arguments = after.arguments, answer = after.answer
    from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::boolean[], $6::bigint[], $7::bigint[],
        $8::text[], $9::bytea[], $10::bytea[], $11::bigint[], $12::text[], $13::bigint[]) as after (effect_id, state,
        epoch, owner, needs_owner, due_ms, expires_ms, body, arguments, answer, epoch_before, state_before, revision_before)
    where effects.effect_id = after.effect_id and effects.epoch = after.epoch_before and effects.state = after.state_before
        and effects.revision = after.revision_before
    returning effects.effect_id
),
recorded as (
    insert into calls (call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record)
    select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record
    from unnest($14::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[], $21::bigint[],
        $22::bigint[], $23::text[]) as call (effect_id, call_id, tenant, principal, tool, outcome, class, received_ms,
        finished_ms, record)
    where call.effect_id is null or call.effect_id in (select changed.effect_id from changed)
    on conflict (call_id) do update
    set outcome = excluded.outcome, class = excluded.class, finished_ms = excluded.finished_ms, record = excluded.record
    where calls.outcome in ('dispatching', 'task_created')
)
select effect_id, (extract(epoch from clock_timestamp()) * 1000)::bigint as clock_ms from changed
