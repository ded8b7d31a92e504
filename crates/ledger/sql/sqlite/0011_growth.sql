-- Of an effect under way: the upstream that has to answer before it can be recovered, the empty text where none has to. Null as soon as
-- nothing is under way, so that whatever looks after effects reads these rows alone, however many keys there are.
alter table effects add column upstream text;

update effects
set upstream = case
    when state = 'dispatching' and body ->> '$.class' in ('K', 'Q') then body ->> '$.order.upstream'
    else ''
end
where state in ('claimed', 'dispatching');

drop index effects_under_way;
create index effects_under_way on effects (upstream, due_ms) where upstream is not null;

-- Tombstones, the oldest first: they are removed when their retention is over.
create index effects_tombstones on effects (expires_ms) where state = 'expired';

create index notes_expiring on notes (expires_ms) where expires_ms is not null;

-- As before, by the index of what is under way.
drop view all_calls;
drop view open_calls;

create view open_calls as
select record ->> '$.call_id' as call_id, record ->> '$.caller.tenant' as tenant, record ->> '$.caller.principal' as principal,
    record ->> '$.tool' as tool, record ->> '$.outcome' as outcome, record ->> '$.class' as class,
    record ->> '$.received_at' as received_ms, record ->> '$.finished_at' as finished_ms, record
from effects
where upstream is not null and record is not null
    and not exists (select 1 from calls where calls.call_id = effects.record ->> '$.call_id');

create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from open_calls;
