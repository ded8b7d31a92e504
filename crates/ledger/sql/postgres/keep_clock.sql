-- Only what follows on what was read: two gateways that beat at once count the same time once.
update clock set seen_ms = $1, ledger_ms = $2 where seen_ms = $3 and ledger_ms = $4
