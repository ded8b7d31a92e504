-- What the records of a commit are found by and counted as, until the writer merges it into call_terms and call_counts. A commit adds one row at
-- the end of one table, instead of rows in many places of two.
create table gathered_index (
    commit_number integer primary key,
    body          blob not null
) strict;
