select effect_id, state, epoch, body, arguments, answer from effects where key_digest = $1
