//! In whose name a call is judged: a caller's credential and the policies in force, or the gateway's own account.
//!
//! The door finds out who the caller is, and the configuration says which policies are in force. Nothing here decides.

use servanda_authority::AuthenticatedCaller;
use servanda_policy::{Policies, Principal, ShadowPolicies};

/// A caller whose credential was checked, and the policies in force.
#[derive(Debug, Clone, Copy)]
pub struct Mandate<'a> {
    /// Who, and what the credential covers.
    pub authenticated: &'a AuthenticatedCaller,
    /// What the operator lets whom do.
    pub policy: PoliciesInForce<'a>,
}

/// The policies in force, for one principal.
#[derive(Debug, Clone, Copy)]
pub struct PoliciesInForce<'a> {
    /// The policies.
    pub policies: &'a Policies,
    /// Policies that are only tried out: the record says what they would have decided.
    pub shadow: Option<&'a ShadowPolicies>,
    /// The caller, as policies see them.
    pub principal: &'a Principal,
    /// The environment the gateway is in, e.g. `production`.
    pub environment: &'a str,
}

/// On whose account the gates judge. Outside this crate only a [`Mandate`] can be named: the gateway's own account is reached by
/// [`crate::pass_question`], which takes nothing that changes anything.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallOrigin<'a> {
    Caller(Mandate<'a>),
    /// No credential and no policy is asked, and no budget is drawn on.
    Gateway,
}
