delete from owners
where beat_ms < $1
    and not exists (select 1 from effects where effects.owner = owners.owner and state in ('claimed', 'dispatching'))
