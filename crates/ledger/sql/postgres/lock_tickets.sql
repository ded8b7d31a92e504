-- The tickets with these ids, and the latest ones of these keys, locked in one order, so that no two batches wait for each other. Effects
-- are locked before tickets.
select ticket_id, key_digest, state, changed_ms, body, arguments, number
from tickets
where ticket_id = any (
    $1::text[] || array(
        select latest.ticket_id
        from unnest($2::bytea[]) as wanted (key_digest)
        cross join lateral (
            select ticket_id from tickets where tickets.key_digest = wanted.key_digest order by number desc limit 1
        ) as latest
    )
)
order by ticket_id
for update
