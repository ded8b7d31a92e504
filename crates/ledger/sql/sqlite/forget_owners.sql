delete from owners
where beat_ms < ?1
    and not exists (select 1 from effects where effects.upstream is not null and effects.owner = owners.owner)
