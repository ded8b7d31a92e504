-- Of an effect under way: the upstream that has to answer before it can be recovered, the empty text where none has to. Null as soon as
-- nothing is under way, so that whatever looks after effects reads these rows alone, however many keys there are.
alter table effects add column upstream text collate "C";
alter type new_effect add attribute upstream text;
alter type changed_effect add attribute upstream text;

update effects
set upstream = case
    when effects.state = 'dispatching' and kept ->> 'class' in ('K', 'Q') then kept #>> '{order,upstream}'
    else ''
end
from effects as same, cast(replace(same.body, '\u0000', '\ufffd') as json) as kept
where effects.effect_id = same.effect_id and effects.state in ('claimed', 'dispatching');

drop index effects_under_way;
create index effects_under_way on effects (upstream, due_ms) where upstream is not null;

-- Tombstones, the oldest first: they are removed when their retention is over.
create index effects_tombstones on effects (expires_ms) where state = 'expired';

create index notes_expiring on notes (expires_ms) where expires_ms is not null;

-- As before, by the index of what is under way.
drop view all_calls;
drop view open_calls;

create view open_calls as
select call ->> 'call_id' as call_id, call #>> '{caller,tenant}' as tenant, call #>> '{caller,principal}' as principal,
    call ->> 'tool' as tool, call ->> 'outcome' as outcome, call ->> 'class' as class,
    (call ->> 'received_at')::bigint as received_ms, (call ->> 'finished_at')::bigint as finished_ms, record
from effects, cast(replace(record, '\u0000', '\ufffd') as json) as call
where upstream is not null and record is not null
    and not exists (select 1 from calls where calls.call_id = call ->> 'call_id');

create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from open_calls;
