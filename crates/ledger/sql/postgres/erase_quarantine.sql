delete from quarantine where call_id = any ($1::text[])
