//! On whose behalf a call is judged: a caller with a credential and the policies in force, or the gateway's own
//! account.
//!
//! The door identifies the caller, and the configuration names the policies in force. Nothing is decided here.

use servanda_approval::ApprovalSettings;
use servanda_authority::AuthenticatedCaller;
use servanda_policy::{Policies, Principal, ShadowPolicies};

/// A caller whose credential was checked, and the policies in force.
#[derive(Debug, Clone, Copy)]
pub struct Mandate<'a> {
    /// The caller, and what the credential covers.
    pub authenticated: &'a AuthenticatedCaller,
    /// The operator's policies.
    pub policy: PoliciesInForce<'a>,
    /// When approvals are needed, and from whom.
    pub approvals: &'a ApprovalSettings,
}

/// The policies in force, for one principal.
#[derive(Debug, Clone, Copy)]
pub struct PoliciesInForce<'a> {
    /// The policies.
    pub policies: &'a Policies,
    /// Policies that are only tried out: the record says what they would have decided.
    pub shadow: Option<&'a ShadowPolicies>,
    /// The caller, as policies see it.
    pub principal: &'a Principal,
    /// The environment of the gateway, e.g. `production`.
    pub environment: &'a str,
}

/// On whose behalf the gates judge. Outside this crate only a [`Mandate`] can be named.
/// [`crate::pass_question`] uses the gateway's own account, and accepts only tools that change nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallOrigin<'a> {
    Caller(Mandate<'a>),
    /// No credential, no policy and no budget applies.
    Gateway,
}
