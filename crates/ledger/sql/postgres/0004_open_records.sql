-- The record of a call that is under way is kept with its effect, where one write is enough for both; it goes to `calls` when
-- the call has ended. What nothing is found by is in the body.
alter table effects drop column tool, drop column contract_major, drop column client_key, add column record text;

-- Every call, wherever its record is. One that was put into `calls` by itself is the later one. A character that text here
-- cannot hold is replaced: the record itself has it.
create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select call ->> 'call_id', call #>> '{caller,tenant}', call #>> '{caller,principal}', call ->> 'tool', call ->> 'outcome',
    call ->> 'class', (call ->> 'received_at')::bigint, (call ->> 'finished_at')::bigint, record
from effects, cast(replace(record, '\u0000', '\ufffd') as json) as call
where state in ('claimed', 'dispatching') and record is not null
    and not exists (select 1 from calls where calls.call_id = call ->> 'call_id');
