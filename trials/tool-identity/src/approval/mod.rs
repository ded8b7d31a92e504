//! Approvals: which texts a decision is filed under, which pending call it is about, and what was decided.
//!
//! These are the rules of clients on the Responses wire. A gateway keys its approvals by structure instead
//! (`servanda_identity::layers::gateway::ApprovalSubject`); both have in common that equal texts never authorise another tool.

mod decisions;
mod keys;
mod pending;
mod record;

pub use decisions::{Approvals, Lasting, Owner};
pub use keys::{ApprovalKey, ApprovalKeys, BareAlias};
pub use pending::PendingApproval;
pub use record::Verdict;
