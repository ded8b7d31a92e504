insert into effects (effect_id, key_digest, tenant, principal, request, state, epoch, owner, needs_owner, due_ms, expires_ms, body,
    arguments, answer, open_record, holds, holds_until_ms, upstream)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
on conflict (key_digest) do nothing
