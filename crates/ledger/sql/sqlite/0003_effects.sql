-- One row per key ever used. The body is the whole truth but for arguments and answer; the columns are for finding it.
-- What is unique is the digest of (tenant, principal, tool, contract major, client key): keys may be of any length.
create table effects (
    effect_id      text    not null primary key,
    key_digest     blob    not null unique,
    tenant         text    not null,
    principal      text    not null,
    tool           text    not null,
    contract_major integer not null,
    client_key     text    not null,
    request        blob    not null,
    state          text    not null,
    epoch          integer not null,
    owner          text    not null,
    -- Whether it is nobody's as soon as its owner is gone; and when it is nobody's, whoever its owner is.
    needs_owner    integer not null,
    due_ms         integer not null,
    expires_ms     integer not null,
    body           text    not null,
    arguments      blob    not null,
    answer         blob
) strict;

create index effects_under_way on effects (due_ms) where state in ('claimed', 'dispatching');
create index effects_unknown on effects (request) where state = 'outcome_unknown';
create index effects_settled on effects (expires_ms)
where state in ('completed', 'failed_final', 'failed_retryable', 'compensated');

-- When each process that performs effects was last heard of.
create table owners (
    owner   text    not null primary key,
    beat_ms integer not null
) strict, without rowid;
