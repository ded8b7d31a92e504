-- Leaves of the verifiable log that wait for their place. A row is written in the transaction of what its leaves are about, so that rows
-- of transactions that commit one after the other have growing numbers.
create table log_outbox (
    number bigint generated always as identity primary key,
    count  integer not null,
    leaves bytea   not null
);

-- The leaves in their order, each after its length in two bytes.
create table log_leaves (
    first  bigint  primary key,
    count  integer not null,
    leaves bytea   not null
);

-- The full tiles of the tree over the leaves: 256 hashes each.
create table log_tiles (
    level  bigint not null,
    number bigint not null,
    hashes bytea  not null,
    primary key (level, number)
);

-- The tree: the leaves that are in it, the hashes of its partial tiles, and the checkpoint that was signed last. The gateway that holds
-- this row extends the tree.
create table log_tree (
    only_row    boolean primary key default true check (only_row),
    size        bigint not null,
    edge        bytea  not null,
    signed_size bigint not null,
    checkpoint  text   not null
);
insert into log_tree (size, edge, signed_size, checkpoint) values (0, '', 0, '');

-- The secret that the salts of the leaves' commitments are derived from.
create table log_salts (
    only_row boolean primary key default true check (only_row),
    secret   bytea not null
);

-- Leaves that are only written with an effect.
create type leaves_beside as (effect_id text, count bigint, leaves bytea);
