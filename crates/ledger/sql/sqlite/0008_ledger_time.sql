-- Ledger time: the store's clock as it was seen last, and what ledger time had come to. One row.
create table clock (
    one       integer not null primary key check (one = 1),
    seen_ms   integer not null,
    ledger_ms integer not null
) strict;

insert into clock (one, seen_ms, ledger_ms)
values (1, cast(unixepoch('subsec') * 1000 as integer), cast(unixepoch('subsec') * 1000 as integer));

-- Until when an effect keeps others from changing the same, in ledger time; null where it keeps nobody. A dispatch holds until its
-- end is known.
alter table effects add column holds_until_ms integer;

update effects set holds_until_ms = case state when 'claimed' then due_ms else 9223372036854775807 end where holds is not null;

drop index effects_holding;
create index effects_holding on effects (tenant, holds_until_ms) where holds_until_ms is not null;
