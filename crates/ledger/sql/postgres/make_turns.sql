insert into turns (tenant) select unnest($1::bytea[]) on conflict (tenant) do nothing
