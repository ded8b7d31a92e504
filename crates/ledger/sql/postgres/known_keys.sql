select key_digest from effects where key_digest = any ($1::bytea[])
