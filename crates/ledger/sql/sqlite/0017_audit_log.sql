-- The leaves of the verifiable log in their order. A row has the leaves of one commit, each after its length in two bytes.
create table log_leaves (
    first  integer primary key,
    count  integer not null,
    leaves blob    not null
) strict;

-- The full tiles of the tree over the leaves: 256 hashes each.
create table log_tiles (
    level  integer not null,
    number integer not null,
    hashes blob    not null,
    primary key (level, number)
) strict, without rowid;

-- The tree: the leaves that are in it, the hashes of its partial tiles, and the checkpoint that was signed last.
create table log_tree (
    only_row    integer primary key check (only_row = 1),
    size        integer not null,
    edge        blob    not null,
    signed_size integer not null,
    checkpoint  text    not null
) strict;
insert into log_tree (only_row, size, edge, signed_size, checkpoint) values (1, 0, x'', 0, '');

-- The secret that the salts of the leaves' commitments are derived from.
create table log_salts (
    only_row integer primary key check (only_row = 1),
    secret   blob    not null
) strict;
