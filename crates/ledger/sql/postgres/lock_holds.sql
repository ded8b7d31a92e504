-- In one order, so that no two batches wait for each other. Holds are locked before accounts.
select hold_id, stage, body from holds where hold_id = any ($1::text[]) order by hold_id for update
