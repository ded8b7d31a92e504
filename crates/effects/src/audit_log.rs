//! The port of the verifiable log: the store puts leaves into their order and computes the root of their tree; who calls it signs. The leaves
//! themselves are written in the transactions of what they are about, and no port writes one.
//!
//! Deliberately not here: what leaves say, the formats of the log, and its key.

use std::fmt;

use crate::{JournalError, PortFuture};

/// How far the log has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// The leaves that are in the tree.
    pub size: u64,
    /// The root of their tree (RFC 6962).
    pub root: [u8; 32],
    /// The leaves of the last signed checkpoint.
    pub signed_size: u64,
    /// Whether more leaves wait for their place in the tree.
    pub is_behind: bool,
}

/// Orders the leaves of the verifiable log.
pub trait AuditLog: Send + Sync + fmt::Debug {
    /// Takes leaves that were written into the tree, as many as one round allows. Of gateways that share a store, one does so at a time; the
    /// others learn how far it has come.
    fn extend_tree(&self) -> PortFuture<'_, Result<LogHead, JournalError>>;

    /// Stores the signed checkpoint of a tree, unless one of a larger tree is there.
    fn put_checkpoint(&self, size: u64, note: String) -> PortFuture<'_, Result<(), JournalError>>;
}
