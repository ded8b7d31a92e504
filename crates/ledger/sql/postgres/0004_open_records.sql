-- The record of a call that is under way is kept with its effect, where one write is enough for both; it goes to `calls` when
-- the call has ended. What nothing is found by is in the body.
alter table effects drop column tool, drop column contract_major, drop column client_key, add column record text;

-- Calls that are under way, as `calls` would have them. One that was put there by itself is the later one. A character that
-- text here cannot hold is replaced: the record itself has it.
create view open_calls as
select call ->> 'call_id' as call_id, call #>> '{caller,tenant}' as tenant, call #>> '{caller,principal}' as principal,
    call ->> 'tool' as tool, call ->> 'outcome' as outcome, call ->> 'class' as class,
    (call ->> 'received_at')::bigint as received_ms, (call ->> 'finished_at')::bigint as finished_ms, record
from effects, cast(replace(record, '\u0000', '\ufffd') as json) as call
where state in ('claimed', 'dispatching') and record is not null
    and not exists (select 1 from calls where calls.call_id = call ->> 'call_id');

-- Every call, wherever its record is.
create view all_calls as
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from calls
union all
select call_id, tenant, principal, tool, outcome, class, received_ms, finished_ms, record from open_calls;

-- What a writer hands in: a row is one parameter, and a batch is an array of them.
create type new_effect as (
    effect_id text, key_digest bytea, tenant bytea, principal bytea, request bytea, state text, epoch bigint, owner text,
    needs_owner boolean, due_ms bigint, expires_ms bigint, body text, arguments bytea, answer bytea, record text, keyless boolean
);
create type changed_effect as (
    effect_id text, state text, epoch bigint, owner text, needs_owner boolean, due_ms bigint, expires_ms bigint, body text,
    arguments bytea, answer bytea, record text, epoch_before bigint, state_before text, revision_before bigint
);
-- With the handle of an effect, only if that is written.
create type call_beside as (
    effect_id text, call_id text, tenant text, principal text, tool text, outcome text, class text, received_ms bigint,
    finished_ms bigint, record text
);
create type quarantine_beside as (effect_id text, call_id text, bytes_total bigint, body bytea);
