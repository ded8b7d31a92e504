-- Records as bytes, a small part of what their JSON took. Rows of earlier versions stay as they are, and are read as they are; for the others the
-- texts are empty, because a column that may not be null can only be dropped by writing every row again.
alter table calls add column body blob;
-- Of a call that is unsettled: the effect that says for how long its record is kept.
alter table calls add column effect_id text;
-- The record of a call under way, in place of `record`.
alter table effects add column open_record blob;

-- What many records have in common, by the digest of its content. Records refer to it.
create table dictionary (
    entry_id blob not null primary key,
    content  blob not null
) strict, without rowid;

drop view all_calls;
drop view open_calls;

-- Calls that are under way. One that was put into `calls` by itself is the later one.
create view open_calls as
select body ->> '$.call_id' as call_id, record, open_record as body
from effects
where upstream is not null and (record is not null or open_record is not null)
    and not exists (select 1 from calls where calls.call_id = effects.body ->> '$.call_id');

-- Every call, wherever its record is.
create view all_calls as
select call_id, record, body from calls
union all
select call_id, record, body from open_calls;
