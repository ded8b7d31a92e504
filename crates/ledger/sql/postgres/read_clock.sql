select (extract(epoch from clock_timestamp()) * 1000)::bigint, seen_ms, ledger_ms from clock
