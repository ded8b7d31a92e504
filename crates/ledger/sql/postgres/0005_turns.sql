-- What an effect that is under way keeps others from changing, as a list of names; null where it keeps nobody.
alter table effects add column holds text;
alter type new_effect add attribute holds text;
alter type changed_effect add attribute holds text;

create index effects_holding on effects (tenant) where holds is not null;

-- A row for every tenant. Whoever begins what others may be changing locks it before looking for them, so that no two pass.
create table turns (
    tenant bytea not null primary key
);
