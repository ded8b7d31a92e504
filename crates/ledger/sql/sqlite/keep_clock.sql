update clock set seen_ms = ?1, ledger_ms = ?2
