update effects
set state = ?2, epoch = ?3, owner = ?4, needs_owner = ?5, due_ms = ?6, expires_ms = ?7, body = ?8, arguments = ?9, answer = ?10,
    record = case when ?11 then record end, open_record = case when ?11 then open_record else ?12 end,
    holds = ?15, holds_until_ms = ?16, upstream = ?17
where effect_id = ?1 and epoch = ?13 and state = ?14
