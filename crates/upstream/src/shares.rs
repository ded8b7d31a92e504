//! How much of a shared, limited resource one user may hold.

/// One principal may hold at most one part in this many.
const PRINCIPALS_SHARE: usize = 4;

/// One tenant leaves one part in this many to the others.
const LEFT_BY_TENANT: usize = 4;

/// How many of `of` things one principal may hold.
pub(crate) fn principal_share(of: usize) -> usize {
    (of / PRINCIPALS_SHARE).max(1)
}

/// How many of `of` things one tenant may hold.
pub(crate) fn tenant_share(of: usize) -> usize {
    (of - of / LEFT_BY_TENANT).max(1)
}
