-- The record of a call that is under way is kept with its effect, where one write is enough for both; it goes to `calls` when
-- the call has ended. What nothing is found by is in the body.
alter table effects drop column tool;
alter table effects drop column contract_major;
alter table effects drop column client_key;
alter table effects add column record text;

-- Calls that are under way, as `calls` would have them. One that was put there by itself is the later one.
create view open_calls as
select record ->> '$.call_id' as call_id, record ->> '$.caller.tenant' as tenant, record ->> '$.caller.principal' as principal,
    record ->> '$.tool' as tool, record ->> '$.outcome' as outcome, record ->> '$.class' as class,
    record ->> '$.received_at' as received_ms, record ->> '$.finished_at' as finished_ms, record
from effects
where state in ('claimed', 'dispatching') and record is not null
    and not exists (select 1 from calls where calls.call_id = effects.record ->> '$.call_id');

-- Every call, wherever its record is.
create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from open_calls;
