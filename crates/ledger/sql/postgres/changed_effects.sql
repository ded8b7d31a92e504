-- Changed effects, only if they are still what was read (I1). Sorted by handle.
update effects
set state = after.state, epoch = after.epoch, revision = after.revision_before + 1, owner = after.owner,
    needs_owner = after.needs_owner, due_ms = after.due_ms, expires_ms = after.expires_ms, body = after.body,
    arguments = after.arguments, answer = after.answer, record = null, open_record = after.open_record,
    holds = after.holds, holds_until_ms = after.holds_until_ms, upstream = after.upstream
from unnest($1::changed_effect[]) as after
where effects.effect_id = after.effect_id and effects.epoch = after.epoch_before and effects.state = after.state_before
    and effects.revision = after.revision_before
