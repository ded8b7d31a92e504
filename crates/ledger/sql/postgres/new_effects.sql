-- New effects, unless their key was used or a blind retry has a twin. Sorted by key, so that no two batches wait for each other's.
insert into effects (effect_id, key_digest, tenant, principal, request, state, epoch, revision, owner, needs_owner, due_ms,
    expires_ms, body, arguments, answer, open_record, holds, holds_until_ms, upstream)
select fresh.effect_id, fresh.key_digest, fresh.tenant, fresh.principal, fresh.request, fresh.state, fresh.epoch, 1,
    fresh.owner, fresh.needs_owner, fresh.due_ms, fresh.expires_ms, fresh.body, fresh.arguments, fresh.answer,
    fresh.open_record, fresh.holds, fresh.holds_until_ms, fresh.upstream
from unnest($1::new_effect[]) as fresh
where not exists (select 1 from effects as used where used.key_digest = fresh.key_digest)
    and (
        not fresh.keyless or not exists (
            select 1 from effects as twin
            where twin.state = 'outcome_unknown' and twin.request = fresh.request and twin.tenant = fresh.tenant
                and twin.principal = fresh.principal
        )
    )
