//! The role of a party in a call: the one that is proven to act, a name that it claims, or one that handed the credential on.

/// The role of a party in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrincipalRole {
    /// The party that is proven to act.
    Proven,
    /// A name that the actor only claims. The call has to be allowed under this name too.
    Claimed,
    /// A party that handed on the credential: what is forbidden to it cannot be done through others.
    Delegator,
}

impl PrincipalRole {
    /// Whether a call needs a permit for this party.
    pub(crate) const fn needs_permit(self) -> bool {
        matches!(self, Self::Proven | Self::Claimed)
    }
}
