insert into gathered_index (body) values (?1)
