-- In one order, so that no two batches wait for each other.
select tenant from turns where tenant = any ($1::bytea[]) order by tenant for update
