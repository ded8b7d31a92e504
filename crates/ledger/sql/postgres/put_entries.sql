-- What is new in the dictionary. Another writer may have been first; then the content is the same.
insert into dictionary (entry_id, content)
select entry_id, content
from unnest($1::bytea[], $2::bytea[]) as fresh (entry_id, content)
on conflict (entry_id) do nothing
