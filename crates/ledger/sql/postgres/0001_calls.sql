-- Every call, refused ones too. The record is the whole truth; the columns beside it are for finding it.
-- A record is written once and finished once: room on the page, and no index on what changes, keep that to one place.
create table calls (
    call_id     text collate "C" not null primary key,
    tenant      text   not null,
    principal   text   not null,
    tool        text   not null,
    outcome     text   not null,
    class       text,
    received_ms bigint not null,
    finished_ms bigint,
    record      text   not null
) with (fillfactor = 60);

create index calls_by_time on calls (received_ms, call_id);

-- Answers that broke their contract: kept for a person to look at, never passed on.
create table quarantine (
    call_id     text collate "C" not null primary key references calls (call_id),
    bytes_total bigint not null,
    body        bytea  not null
);
