-- What may expire, found as before, without the list: for one of three names and more, a table is made and thrown away every time
-- a row is looked at.
drop index effects_settled;
create index effects_settled on effects (expires_ms)
where state = 'completed' or state = 'failed_final' or state = 'failed_retryable' or state = 'compensated';
