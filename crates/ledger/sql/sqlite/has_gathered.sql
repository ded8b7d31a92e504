select exists (select 1 from gathered_index where commit_number > 0)
