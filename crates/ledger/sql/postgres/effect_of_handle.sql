select effect_id, state, epoch, body, arguments, answer from effects where effect_id = $1
