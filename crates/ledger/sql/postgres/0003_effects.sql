-- One row per key ever used. The body is the whole truth but for arguments and answer; the columns are for finding it.
-- What is unique is the digest of (tenant, principal, tool, contract major, client key): keys may be of any length, and hold
-- characters that text here cannot.
create table effects (
    effect_id      text collate "C" not null primary key,
    key_digest     bytea   not null unique,
    tenant         bytea   not null,
    principal      bytea   not null,
    tool           bytea   not null,
    contract_major bigint  not null,
    client_key     bytea   not null,
    request        bytea   not null,
    state          text collate "C" not null,
    epoch          bigint  not null,
    -- Counts the writes: what was read before is compared by it.
    revision       bigint  not null,
    owner          text collate "C" not null,
    -- Whether it is nobody's as soon as its owner is gone; and when it is nobody's, whoever its owner is.
    needs_owner    boolean not null,
    due_ms         bigint  not null,
    expires_ms     bigint  not null,
    body           text    not null,
    arguments      bytea   not null,
    answer         bytea
);

create index effects_under_way on effects (due_ms) where state in ('claimed', 'dispatching');
create index effects_unknown on effects (request) where state = 'outcome_unknown';
create index effects_settled on effects (expires_ms)
where state in ('completed', 'failed_final', 'failed_retryable', 'compensated');

-- When each process that performs effects was last heard of.
create table owners (
    owner   text collate "C" not null primary key,
    beat_ms bigint not null
);
