//! Why no grant is made.

use crate::LeafFault;

/// Why no grant can be made from a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantObstacle {
    /// People did not approve it.
    #[error("a grant is made from a call that people approved")]
    NotApproved,
    /// One was made already.
    #[error("a grant was made from this ticket already")]
    MadeAlready,
    /// People decide about every such call.
    #[error("people decide about each such call: {0}")]
    NeedsPeople(&'static str),
    /// An argument is a secret.
    #[error("an argument is a secret, and a grant would hold it")]
    Secret,
    /// The arguments have no bounds.
    #[error("its arguments cannot be bounded: {0}")]
    Arguments(LeafFault),
}
