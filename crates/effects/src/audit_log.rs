//! The port of the verifiable log: the store puts leaves into their order and computes the root of their tree; who calls it signs. The leaves
//! themselves are written in the transactions of what they are about: with calls, effects, tickets and budgets by themselves, and with a note
//! if its writer says what changed.
//!
//! Deliberately not here: what leaves say, the formats of the log, and its key.

use std::fmt;

use servanda_contract::{Digest, Timestamp};

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

/// A change of something that decisions depend on, as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedChange {
    /// What kind of thing.
    pub thing: LoggedThing,
    /// Which one.
    pub id: String,
    /// What became of it, in one word.
    pub change: &'static str,
    /// The person, or the part of the gateway, that changed it.
    pub by: String,
    /// The call for which it changed.
    pub call: Option<String>,
    /// The digest of what it is now, if it is still there.
    pub digest: Option<Digest>,
    /// When.
    pub at: Timestamp,
}

/// What the writers of notes change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedThing {
    /// What a tool takes and does.
    Contract,
    /// The operator's rules.
    Policies,
    /// Whether a tool is held back.
    Quarantine,
}

/// Orders the leaves of the verifiable log.
pub trait AuditLog: Send + Sync + fmt::Debug {
    /// Takes leaves that were written into the tree, as many as one round allows. Of gateways that share a store, one does so at a time; the
    /// others learn how far it has come.
    fn extend_tree(&self) -> PortFuture<'_, Result<LogHead, JournalError>>;

    /// Stores the signed checkpoint of a tree, unless one of a larger tree is there.
    fn put_checkpoint(&self, size: u64, note: String) -> PortFuture<'_, Result<(), JournalError>>;
}
