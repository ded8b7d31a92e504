-- The calls that were received within some spans of 16 ms, newest first, behind the call where the page before ended. That place is no bound of
-- the index, because of two upper bounds the server may take the farther one, and would read every call between it and the span.
select listed.call_id, listed.record, listed.body
from unnest($1::bigint[]) as wanted (span)
cross join lateral (
    select call_id, record, body, received_ms
    from calls
    where received_ms >= wanted.span * 16 and received_ms < wanted.span * 16 + 16 and (received_ms + 0, call_id) < ($2, $3)
    order by received_ms desc, call_id desc
    limit $4
) as listed
order by listed.received_ms desc, listed.call_id desc
limit $4
