//! The subject of a lasting approval at the gateway.

use std::fmt;

use servanda_contract::digest::Digest;

use super::UpstreamTool;

/// A principal's calls of a tool under a contract. Compared as a whole: a tool of the same exposed name on another upstream,
/// the same tool under a changed contract, and another principal are other subjects.
///
/// It cannot be made from text or from an exposed name.
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
