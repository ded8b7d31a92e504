delete from quarantine where call_id = ?1
