-- How accounts of budgets stand in their window. The body is the whole truth; the columns are for finding it. Names are bytes:
-- text here cannot hold every character, and in a body such a one is escaped.
create table standings (
    account    bytea  not null primary key,
    tenant     bytea  not null,
    changed_ms bigint not null,
    -- When it may be forgotten.
    expires_ms bigint,
    body       text   not null
) with (fillfactor = 70);

create index standings_of_tenant on standings (tenant, changed_ms);
create index standings_by_time on standings (changed_ms);
create index standings_over on standings (expires_ms) where expires_ms is not null;

-- What is kept back for calls, and what processes hand out by themselves.
create table holds (
    hold_id    text collate "C" not null primary key,
    kind       text   not null,
    effect_id  text collate "C",
    stage      text   not null,
    opened_ms  bigint not null,
    expires_ms bigint,
    body       text   not null
);

create index holds_open on holds (opened_ms) where stage = 'open' and kind = 'reservation';
create index holds_of_effect on holds (effect_id) where effect_id is not null;
create index holds_over on holds (expires_ms) where expires_ms is not null;
