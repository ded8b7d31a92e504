-- Records as bytes, a small part of what their JSON took. Rows of earlier versions stay as they are, and are read as they are.
alter table calls
    alter column tenant drop not null,
    alter column principal drop not null,
    alter column tool drop not null,
    alter column record drop not null,
    add column body bytea,
    -- Of a call that is unsettled: the effect that says for how long its record is kept.
    add column effect_id text collate "C";
-- Since records of calls under way are kept with their effects, a row is hardly ever written twice: pages may be full.
alter table calls reset (fillfactor);
-- The record of a call under way, in place of `record`.
alter table effects add column open_record bytea;

-- What many records have in common, by the digest of its content. Records refer to it.
create table dictionary (
    entry_id bytea not null primary key,
    content  bytea not null
);

drop view all_calls;
drop view open_calls;

-- Calls that are under way. One that was put into `calls` by itself is the later one. A character that text here cannot hold is replaced.
create view open_calls as
select kept ->> 'call_id' as call_id, record, open_record as body
from effects, cast(replace(effects.body, '\u0000', '\ufffd') as json) as kept
where upstream is not null and (record is not null or open_record is not null)
    and not exists (select 1 from calls where calls.call_id = kept ->> 'call_id');

-- Every call, wherever its record is.
create view all_calls as
select call_id, record, body from calls
union all
select call_id, record, body from open_calls;

alter type new_effect drop attribute record, add attribute open_record bytea;
alter type changed_effect drop attribute record, add attribute open_record bytea;
drop type call_beside;
create type call_beside as (
    effect_id text, call_id text, outcome text, received_ms bigint, body bytea, unsettled_effect_id text
);
