-- What is still to be merged, oldest first.
select commit_number, body from gathered_index where commit_number > 0 order by commit_number limit ?1
