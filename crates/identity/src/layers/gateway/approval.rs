//! What a lasting approval at the gateway is about.

use std::fmt;

use servanda_contract::digest::Digest;

use super::UpstreamTool;

/// Whose calls of which tool under which contract. Compared as it is: a tool of the same exposed name on another upstream, the same
/// tool under a changed contract and another principal are other subjects.
///
/// There is no way to make one from text, and none from an exposed name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalSubject {
    /// The tenant.
    pub tenant: String,
    /// The authenticated party.
    pub principal: String,
    /// The tool.
    pub tool: UpstreamTool,
    /// The contract that was in force.
    pub contract: Digest,
}

impl fmt::Display for ApprovalSubject {
    /// For people only.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} for {} (contract {})", self.tool, self.principal, self.contract.short())
    }
}
