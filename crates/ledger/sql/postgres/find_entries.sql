select entry_id, content from dictionary where entry_id = any ($1::bytea[])
