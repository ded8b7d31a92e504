select cast(unixepoch('subsec') * 1000 as integer), seen_ms, ledger_ms from clock
