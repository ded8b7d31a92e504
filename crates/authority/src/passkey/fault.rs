//! Why a registration or a signature of a passkey is refused, and what a person does next.

/// Why a registration or an assertion counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyFault {
    /// A part is not in the form that browsers send.
    #[error("{0} is not in the form that browsers send")]
    Malformed(&'static str),
    /// A registration was shown for a signature, or the other way round.
    #[error("the browser did something else with the passkey than was asked")]
    OtherCeremony,
    /// The challenge is not the one that was given.
    #[error("the passkey answered another challenge")]
    OtherChallenge,
    /// The page is not ours.
    #[error("the passkey was used on a page of another origin")]
    OtherOrigin,
    /// The page was inside a page of another site.
    #[error("the page was embedded in another site")]
    Embedded,
    /// The passkey belongs to another relying party.
    #[error("the passkey belongs to another site")]
    OtherRelyingParty,
    /// Nobody touched the authenticator.
    #[error("the authenticator does not say that a person was present")]
    NotPresent,
    /// The authenticator did not check who the person is.
    #[error("the authenticator did not verify the person, by a fingerprint, a face or a PIN")]
    NotVerified,
    /// The flags contradict each other or what was registered.
    #[error("the authenticator contradicts what it said before about copies of the passkey")]
    BackupState,
    /// The key is not of an accepted kind, too small, or not a key.
    #[error("the passkey's key is not ES256 on P-256, EdDSA on Ed25519, or RS256 with 2048 bits or more")]
    Key,
    /// Another passkey was used than the one that is meant.
    #[error("another passkey was used")]
    OtherPasskey,
    /// The signature is not by this passkey.
    #[error("the signature is not by this passkey over this challenge")]
    Signature,
    /// The counter did not grow: there may be two of this passkey.
    #[error("the passkey's counter did not grow, so there may be a copy of it")]
    Cloned,
}

impl PasskeyFault {
    /// What the person does next.
    pub const fn next_step(self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::OtherCeremony | Self::BackupState | Self::Signature => {
                "try again in a current browser; if it fails again, register the passkey anew"
            }
            Self::OtherChallenge => "the page was open for too long or was used twice: load it again, and decide again",
            Self::OtherOrigin | Self::OtherRelyingParty => {
                "open the console at its configured address; if that address changed, register the passkey anew"
            }
            Self::Embedded => "open the console in a tab of its own",
            Self::NotPresent => "touch the authenticator when the browser asks for it",
            Self::NotVerified => "set up a PIN, a fingerprint or a face for the authenticator, and try again",
            Self::Key => {
                "use an authenticator with ES256, EdDSA or RS256: every current phone, computer and key has one"
            }
            Self::OtherPasskey => "choose the passkey that is registered for your account",
            Self::Cloned => "do not use this passkey again: have it removed, and register a new one",
        }
    }
}
