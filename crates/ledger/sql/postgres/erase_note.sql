delete from notes where kind = $1 and key = $2
