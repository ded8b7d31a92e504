-- What recorded calls are found by. A term is a number made of a tenant and one thing that calls have in common: a user or agent, a tool,
-- an outcome, a class, a stage. A span is 16 ms in which such a call was received. Records of calls that
-- come together share their rows, and a record that is found this way is looked at before it is listed.
create table call_terms (
    term integer not null,
    span integer not null,
    primary key (term, span)
) strict, without rowid;

-- How many calls of a tenant ended how, by minute and by hour.
create table call_counts (
    tenant   blob    not null,
    width_ms integer not null,
    start_ms integer not null,
    measure  text    not null,
    amount   integer not null,
    primary key (tenant, width_ms, start_ms, measure)
) strict, without rowid;

-- The oldest first: they are removed together with the records of their time.
create index call_counts_by_age on call_counts (start_ms);
