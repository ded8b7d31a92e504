-- Every call, refused ones too. The record is the whole truth; the columns beside it are for finding it.
-- Rows of one to two kilobytes: an ordinary table keeps them on a page, one without row ids would give each its own.
create table calls (
    call_id     text    not null primary key,
    tenant      text    not null,
    principal   text    not null,
    tool        text    not null,
    outcome     text    not null,
    class       text,
    received_ms integer not null,
    finished_ms integer,
    record      text    not null
) strict;

create index calls_by_time on calls (received_ms);

-- Answers that broke their contract: kept for a person to look at, never passed on.
create table quarantine (
    call_id     text    not null primary key references calls (call_id),
    bytes_total integer not null,
    body        blob    not null
) strict;
