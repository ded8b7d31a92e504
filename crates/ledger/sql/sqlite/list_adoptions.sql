select adopted_ms, adopted_by, evidence, found, known_id, known_position, found_id, found_position, ledger_id, lost_from_ms,
    lost_until_ms, in_force_until_ms, settled_ms, settled_by, settled_evidence
from adoptions order by adoption_id desc limit 100
