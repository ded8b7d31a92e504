-- In one order, so that no two batches wait for each other.
select account, body from standings where account = any ($1::bytea[]) order by account for update
