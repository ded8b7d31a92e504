-- The record of a call that is under way is kept with its effect, where one write is enough for both; it goes to `calls` when
-- the call has ended. What nothing is found by is in the body.
alter table effects drop column tool;
alter table effects drop column contract_major;
alter table effects drop column client_key;
alter table effects add column record text;

-- Every call, wherever its record is. One that was put into `calls` by itself is the later one.
create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select record ->> '$.call_id', record ->> '$.caller.tenant', record ->> '$.caller.principal', record ->> '$.tool',
    record ->> '$.outcome', record ->> '$.class', record ->> '$.received_at', record ->> '$.finished_at', record
from effects
where state in ('claimed', 'dispatching') and record is not null
    and not exists (select 1 from calls where calls.call_id = effects.record ->> '$.call_id');
