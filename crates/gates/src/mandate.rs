//! What a call is judged under: somebody's credential and the policies in force, or the gateway's own account.
//!
//! Who it is was found out at the door, which policies are in force is the world's to say. Nothing here decides.

use servanda_authority::Authenticated;
use servanda_policy::{Policies, Principal, Shadow};

/// In whose name a call is judged.
#[derive(Debug, Clone, Copy)]
pub enum Mandate<'a> {
    /// Somebody whose credential was checked.
    Caller {
        /// Who, and what the credential covers.
        authenticated: &'a Authenticated,
        /// What the operator lets whom do.
        policy: InForce<'a>,
    },
    /// A question that the gateway asks on its own account because a contract says so, and its own tool: no credential and no
    /// policy is asked.
    Gateway,
}

/// The policies in force, for one principal.
#[derive(Debug, Clone, Copy)]
pub struct InForce<'a> {
    /// The policies.
    pub policies: &'a Policies,
    /// Others that are only tried out: what they would have done is noted, and that is all.
    pub shadow: Option<&'a Shadow>,
    /// The caller, as policies see them.
    pub principal: &'a Principal,
    /// The environment the gateway is in, e.g. `production`.
    pub environment: &'a str,
}
