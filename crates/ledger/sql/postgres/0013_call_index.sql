-- What recorded calls are found by. A term is a number made of a tenant and one thing that calls have in common: a user or agent, a tool,
-- an outcome, a class, a stage. A span is 16 ms in which such a call was received. Records of calls that come together share their rows,
-- and a record that is found this way is looked at before it is listed. Every connection that writes has rows of its own, so that no
-- transaction waits for another.
create table call_terms (
    term   integer not null,
    span   bigint  not null,
    writer integer not null,
    primary key (term, span, writer)
);

-- How many calls of a tenant ended how, by minute and by hour. The rows of the present are written again and again: there is room for that
-- on their pages.
create table call_counts (
    tenant   bytea   not null,
    width_ms bigint  not null,
    start_ms bigint  not null,
    measure  text collate "C" not null,
    writer   integer not null,
    amount   bigint  not null,
    primary key (tenant, width_ms, start_ms, measure, writer)
) with (fillfactor = 50);

-- The oldest first: they are removed together with the records of their time.
create index call_counts_by_age on call_counts (start_ms);

-- What a batch adds, beside an effect if it is only written with that.
create type term_beside as (effect_id text, term bigint, span bigint);
create type count_beside as (effect_id text, tenant bytea, width_ms bigint, start_ms bigint, measure text, amount bigint);
