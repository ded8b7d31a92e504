-- Ledger time: the store's clock as it was seen last, and what ledger time had come to. One row.
create table clock (
    one       boolean not null primary key default true check (one),
    seen_ms   bigint  not null,
    ledger_ms bigint  not null
);

insert into clock (seen_ms, ledger_ms)
select now_ms, now_ms from (select (extract(epoch from clock_timestamp()) * 1000)::bigint as now_ms) as at;

-- Until when an effect keeps others from changing the same, in ledger time; null where it keeps nobody. A dispatch holds until its
-- end is known.
alter table effects add column holds_until_ms bigint;
alter type new_effect add attribute holds_until_ms bigint;
alter type changed_effect add attribute holds_until_ms bigint;

update effects set holds_until_ms = case state when 'claimed' then due_ms else 9223372036854775807 end where holds is not null;

drop index effects_holding;
create index effects_holding on effects (tenant, holds_until_ms) where holds_until_ms is not null;
