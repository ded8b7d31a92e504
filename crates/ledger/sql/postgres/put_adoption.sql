insert into adoptions (
    adopted_ms, adopted_by, evidence, found, known_id, known_position, found_id, found_position, ledger_id, lost_from_ms,
    lost_until_ms, in_force_until_ms
) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
