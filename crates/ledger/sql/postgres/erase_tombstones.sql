-- They are locked by what finds them, so that they are still what they were.
delete from effects
using (
    select effect_id from effects where state = 'expired' and expires_ms <= $1 order by expires_ms limit $2 for update skip locked
) as over
where effects.effect_id = over.effect_id
