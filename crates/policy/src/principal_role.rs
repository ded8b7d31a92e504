//! As whom a principal is looked at: who is proven to act, whom they claim to be, and who handed the credential on.

/// As whom a principal is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrincipalRole {
    /// Who is proven to act.
    Proven,
    /// A name that the actor only claims. The call has to be allowed under this name too.
    Claimed,
    /// One who handed on what the principal acts with: what is forbidden to it is not to be had through others.
    Delegator,
}

impl PrincipalRole {
    /// Whether nothing is allowed unless it is permitted to this one.
    pub(crate) const fn needs_permit(self) -> bool {
        matches!(self, Self::Proven | Self::Claimed)
    }
}
