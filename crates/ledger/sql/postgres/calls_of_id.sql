-- Calls whose id begins so: of those that have ended by their key, and of the few that are under way.
select call_id, record, body from (
    select call_id, record, body from calls where call_id >= $1 and call_id < $1 || '~'
    union all
    select call_id, record, body from open_calls where call_id >= $1 and call_id < $1 || '~'
) as listed
order by call_id
limit $2
