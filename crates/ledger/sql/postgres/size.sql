-- What the ledger's tables take, with their indexes and what is stored beside them.
select coalesce(sum(pg_total_relation_size(name)), 0)::bigint
from unnest(array['calls', 'effects', 'quarantine', 'notes', 'holds', 'standings']::regclass[]) as tables (name)
