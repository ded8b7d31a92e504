delete from calls where call_id = any ($1::text[])
