-- One row per request for an approval. The body is the whole truth but for the arguments; the columns are for finding it. Names that
-- callers choose are bytes: text here cannot hold every character, and in a body such a one is escaped.
create table tickets (
    ticket_id     text collate "C" not null primary key,
    -- The order in which tickets were opened, whatever the clocks of the gateways said: the latest ticket of a key has the largest.
    number        bigint  not null generated always as identity,
    key_digest    bytea   not null,
    tenant        bytea   not null,
    -- The digest of tenant and run.
    run           bytea   not null,
    state         text collate "C" not null,
    created_ms    bigint  not null,
    decided_ms    bigint,
    -- When something happens to it by itself, by the store's clock and in ledger time; null as soon as it is over.
    due_ms        bigint,
    due_ledger_ms bigint,
    changed_ms    bigint  not null,
    body          text    not null,
    arguments     bytea   not null
);

create index tickets_of_key on tickets (key_digest, number);
-- The same call is asked about once at a time.
create unique index tickets_open on tickets (key_digest) where state in ('pending', 'approved');
create index tickets_of_tenant on tickets (tenant, state, ticket_id);
create index tickets_by_state on tickets (state, ticket_id);
create index tickets_due on tickets (due_ms) where due_ms is not null;
create index tickets_due_in_ledger_time on tickets (due_ledger_ms) where due_ledger_ms is not null;
-- What people decided about the calls of a run, and what they denied.
create index tickets_decided on tickets (run, decided_ms) where state in ('approved', 'denied', 'consumed', 'lapsed');
create index tickets_denied on tickets (run, decided_ms) where state = 'denied';
-- Those that are over: they are removed when their retention is.
create index tickets_closed on tickets (changed_ms)
where state in ('denied', 'auto_denied', 'superseded', 'consumed', 'lapsed');
