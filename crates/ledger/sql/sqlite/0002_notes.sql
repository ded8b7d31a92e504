-- Small facts that outlive the process: sessions, tasks, secrets, eras. Their writers know what they mean.
create table notes (
    kind       text    not null,
    key        text    not null,
    value      text    not null,
    expires_ms integer,
    primary key (kind, key)
) strict, without rowid;
