-- Changed effects, only if they are still what was read (I1). Sorted by handle.
update effects
set state = after.state, epoch = after.epoch, revision = after.revision_before + 1, owner = after.owner,
    needs_owner = after.needs_owner, due_ms = after.due_ms, expires_ms = after.expires_ms, body = after.body,
    arguments = after.arguments, answer = after.answer, record = after.record
from unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::boolean[], $6::bigint[], $7::bigint[],
    $8::text[], $9::bytea[], $10::bytea[], $11::text[], $12::bigint[], $13::text[], $14::bigint[]) as after (effect_id,
    state, epoch, owner, needs_owner, due_ms, expires_ms, body, arguments, answer, record, epoch_before, state_before,
    revision_before)
where effects.effect_id = after.effect_id and effects.epoch = after.epoch_before and effects.state = after.state_before
    and effects.revision = after.revision_before
returning effects.effect_id
