-- How accounts of budgets stand in their window. The body is the whole truth; the columns are for finding it.
create table standings (
    account    blob    not null primary key,
    tenant     text    not null,
    changed_ms integer not null,
    -- When it may be forgotten.
    expires_ms integer,
    body       text    not null
) strict;

create index standings_of_tenant on standings (tenant, changed_ms);
create index standings_by_time on standings (changed_ms);
create index standings_over on standings (expires_ms) where expires_ms is not null;

-- What is kept back for calls, and what processes hand out by themselves.
create table holds (
    hold_id    text    not null primary key,
    kind       text    not null,
    effect_id  text,
    stage      text    not null,
    opened_ms  integer not null,
    expires_ms integer,
    body       text    not null
) strict;

create index holds_open on holds (opened_ms) where stage = 'open' and kind = 'reservation';
create index holds_of_effect on holds (effect_id) where effect_id is not null;
create index holds_over on holds (expires_ms) where expires_ms is not null;
