-- Requests of one key come one after the other, also while it has no ticket that could be locked. The keys come in one order, so that no
-- two batches wait for each other.
select pg_advisory_xact_lock(wanted.key) from unnest($1::bigint[]) as wanted (key)
