-- Which ledger this is, and how far it has come: the position grows with every beat of every gateway. Each gateway keeps both in
-- a file of its own too, so that a database that was replaced, emptied or put back to an earlier time is noticed.
create table ledger_identity (
    one        integer not null primary key check (one = 1),
    ledger_id  text    not null,
    position   bigint  not null,
    written_ms bigint  not null,
    made_ms    bigint  not null
);

insert into ledger_identity (one, ledger_id, position, written_ms, made_ms)
select 1, replace(gen_random_uuid()::text, '-', ''), 1, now_ms, coalesce((select min(received_ms) from calls), now_ms)
from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms) as clock;

-- That a person accepted this ledger although it was not the one that was known, and which time may be lost.
create table adoptions (
    adoption_id       bigint  not null generated always as identity primary key,
    adopted_ms        bigint  not null,
    adopted_by        text    not null,
    evidence          text    not null,
    found             text    not null,
    known_id          text,
    known_position    bigint,
    found_id          text,
    found_position    bigint,
    ledger_id         text    not null,
    lost_from_ms      bigint  not null,
    lost_until_ms     bigint  not null,
    in_force_until_ms bigint  not null,
    settled_ms        bigint,
    settled_by        text,
    settled_evidence  text
);

create index adoptions_unsettled on adoptions (adoption_id) where settled_ms is null;

-- Written by whoever looks whether the ledger can be written to.
create table probes (
    one        integer not null primary key check (one = 1),
    written_ms bigint  not null,
    padding    bytea   not null
);
