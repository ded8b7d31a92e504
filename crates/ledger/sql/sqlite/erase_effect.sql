delete from effects where effect_id = ?1 and epoch = ?2 and state = ?3
