-- What an effect that is under way keeps others from changing, as a list of names; null where it keeps nobody.
alter table effects add column holds text;

create index effects_holding on effects (tenant) where holds is not null;
