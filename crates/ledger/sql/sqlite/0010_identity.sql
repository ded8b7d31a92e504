-- Which ledger this is, and how far it has come: the position grows with every transaction that writes. Both are kept in a file
-- outside the ledger too, so that a ledger that was replaced, emptied or has lost its latest commits is noticed.
create table ledger_identity (
    one        integer not null primary key check (one = 1),
    ledger_id  text    not null,
    position   integer not null,
    written_ms integer not null,
    made_ms    integer not null
) strict;

insert into ledger_identity (one, ledger_id, position, written_ms, made_ms)
select 1, lower(hex(randomblob(16))), 1, now_ms, coalesce((select min(received_ms) from calls), now_ms)
from (select cast(unixepoch('subsec') * 1000 as integer) as now_ms);

-- That a person accepted this ledger although it was not the one that was known, and which time may be lost.
create table adoptions (
    adoption_id       integer not null primary key,
    adopted_ms        integer not null,
    adopted_by        text    not null,
    evidence          text    not null,
    found             text    not null,
    known_id          text,
    known_position    integer,
    found_id          text,
    found_position    integer,
    ledger_id         text    not null,
    lost_from_ms      integer not null,
    lost_until_ms     integer not null,
    in_force_until_ms integer not null,
    settled_ms        integer,
    settled_by        text,
    settled_evidence  text
) strict;

create index adoptions_unsettled on adoptions (adoption_id) where settled_ms is null;

-- Written by whoever looks whether the ledger can be written to.
create table probes (
    one        integer not null primary key check (one = 1),
    written_ms integer not null,
    padding    blob    not null
) strict;
