delete from calls where call_id = ?1
