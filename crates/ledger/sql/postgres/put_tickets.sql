insert into tickets (
    ticket_id, key_digest, tenant, run, state, created_ms, decided_ms, due_ms, due_ledger_ms, changed_ms, body, arguments
)
select * from unnest(
    $1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[],
    $10::bigint[], $11::text[], $12::bytea[]
)
