-- Small facts that outlive the process: sessions, tasks, secrets, eras. Their writers know what they mean.
-- Bytes where a client may have had a say: text here cannot hold every character.
create table notes (
    kind       text  not null,
    key        bytea not null,
    value      bytea not null,
    expires_ms bigint,
    primary key (kind, key)
);
