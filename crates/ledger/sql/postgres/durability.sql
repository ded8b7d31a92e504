-- What could lose a commit that was acknowledged: no sync at all, or somebody who may become the primary without having it.
select current_setting('fsync') = 'on' as syncs,
    (
        select string_agg(coalesce(nullif(sender.application_name, ''), 'unnamed'), ', ')
        from pg_stat_replication as sender
        left join pg_replication_slots as slot on slot.active_pid = sender.pid
        where slot.slot_type is distinct from 'logical' and sender.state is distinct from 'backup'
            and (sender.sync_state is null or sender.sync_state not in ('sync', 'quorum'))
    ) as unawaited,
    (
        select string_agg(slot_name::text, ', ') from pg_replication_slots where slot_type = 'physical' and not active
    ) as away
