delete from notes
using (select kind, key from notes where expires_ms <= $1 order by expires_ms limit $2 for update skip locked) as over
where notes.kind = over.kind and notes.key = over.key
