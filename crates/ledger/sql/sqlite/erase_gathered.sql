delete from gathered_index where commit_number <= ?1
