//! Digests: SHA-256 with a domain, over length-prefixed parts, so that no two different lists of parts have the same digest.
//!
//! Callers decide what is hashed; this module only makes the hash unambiguous.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// What a digest identifies. Digests of different domains never match, even for the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestDomain {
    /// A whole contract.
    Contract,
    /// A caller's proposal: tenant, tool, contract digest, canonical arguments (H of the design).
    Proposal,
    /// Arguments as they arrived, well-formed or not. Detects a bad proposal that is sent again.
    Arguments,
    /// The errors of one refusal. Detects a repair that makes no progress.
    Errors,
    /// A tool definition as an upstream serves it.
    Definition,
    /// An upstream's answer, byte for byte.
    Answer,
    /// How an upstream is reached, without the values of its secrets.
    Transport,
    /// A request as it arrived: method, subject, parameters. Detects the same request made again.
    Request,
    /// The payload that one key is bound to: tenant, tool and canonical arguments, independent of the contract's version.
    Payload,
    /// A key derived from the operation that a client named.
    Operation,
    /// The key that the gateway gives to an upstream.
    UpstreamKey,
    /// The lookup key of one effect: tenant, principal, tool, contract major, client key.
    EffectKey,
    /// What a probe read.
    Seen,
    /// Decides whether a call is sampled for probes.
    Sample,
    /// The lookup key of one budget account: its owner, what it counts, and its period.
    BudgetAccount,
    /// A question from an upstream to a caller: method and parameters, as the upstream wrote them.
    Question,
    /// The location of a configuration. Tells apart several gateways on one machine.
    Configuration,
    /// Content that many stored records share.
    DictionaryEntry,
    /// The id of a key with which the gateway signs what it attests.
    AttestationKey,
    /// The lookup key of one approval ticket: tenant, principal, agents and payload, independent of the contract's version.
    TicketKey,
    /// The lookup key of a run's tickets: tenant and run.
    TicketRun,
    /// A signed warrant, as its text.
    Warrant,
    /// A signed grant.
    Grant,
    /// The lookup key of the grants for a caller's calls of a tool: tenant, principal, agents and contract name.
    GrantKey,
    /// What a passkey signs: a ticket, its payload, the decision and the approver.
    PasskeyDecision,
    /// What a tool showed to people who decide, in canonical form.
    Shown,
    /// A text that is too long for a leaf of the verifiable log.
    LeafText,
    /// The name of a verifiable log: the published half of its key.
    LogName,
    /// The policies in force, by their ids and texts.
    Policies,
    /// What a budget holds for a call or a process.
    BudgetHold,
    /// The id of a span of a call: the call and which span.
    Span,
}

/// A SHA-256 digest, written `sha256:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

/// Text that is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `sha256:` followed by 64 lower-case hex digits")]
pub struct ParseDigestError(());

impl Digest {
    /// Hashes `parts` in `domain`; every part is preceded by its length.
    pub fn compute(domain: DigestDomain, parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in std::iter::once(&domain.label().as_bytes()).chain(parts) {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hex digits: enough for people to compare, never for a decision.
    pub fn short(&self) -> String {
        self.hex_prefix(12)
    }

    /// The first hex digits.
    pub fn hex_prefix(&self, digits: usize) -> String {
        hex(&self.0).chars().take(digits).collect()
    }
}

impl DigestDomain {
    const fn label(self) -> &'static str {
        match self {
            Self::Contract => "servanda/contract/v1",
            Self::Proposal => "servanda/proposal/v1",
            Self::Arguments => "servanda/arguments/v1",
            Self::Errors => "servanda/errors/v1",
            Self::Definition => "servanda/definition/v1",
            Self::Answer => "servanda/answer/v1",
            Self::Transport => "servanda/transport/v1",
            Self::Request => "servanda/request/v1",
            Self::Payload => "servanda/payload/v1",
            Self::Operation => "servanda/operation/v1",
            Self::UpstreamKey => "servanda/upstream-key/v1",
            Self::EffectKey => "servanda/effect-key/v1",
            Self::Seen => "servanda/seen/v1",
            Self::Sample => "servanda/sample/v1",
            Self::BudgetAccount => "servanda/budget-account/v1",
            Self::Question => "servanda/question/v1",
            Self::Configuration => "servanda/configuration/v1",
            Self::DictionaryEntry => "servanda/dictionary-entry/v1",
            Self::AttestationKey => "servanda/attestation-key/v1",
            Self::TicketKey => "servanda/ticket-key/v1",
            Self::TicketRun => "servanda/ticket-run/v1",
            Self::Warrant => "servanda/warrant/v1",
            Self::Grant => "servanda/grant/v1",
            Self::GrantKey => "servanda/grant-key/v1",
            Self::PasskeyDecision => "servanda/passkey-decision/v1",
            Self::Shown => "servanda/shown/v1",
            Self::LeafText => "servanda/leaf-text/v1",
            Self::LogName => "servanda/log-name/v1",
            Self::Policies => "servanda/policies/v1",
            Self::BudgetHold => "servanda/budget-hold/v1",
            Self::Span => "servanda/span/v1",
        }
    }
}

/// Lower-case hex of any bytes. Written by hand because the formatter is too slow: every stored effect and record has several
/// digests.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, ParseDigestError> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or(ParseDigestError(()))?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| ParseDigestError(()))?;
            if pair.bytes().any(|digit| digit.is_ascii_uppercase() || digit == b'+') {
                return Err(ParseDigestError(()));
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ParseDigestError(()))?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{Digest, DigestDomain};

    #[test]
    fn parts_cannot_be_shifted_between_each_other() {
        let split_early = Digest::compute(DigestDomain::Proposal, &[b"a", b"bc"]);
        let split_late = Digest::compute(DigestDomain::Proposal, &[b"ab", b"c"]);
        assert_ne!(split_early, split_late);
    }

    #[test]
    fn domains_are_apart() {
        assert_ne!(Digest::compute(DigestDomain::Contract, &[b"x"]), Digest::compute(DigestDomain::Proposal, &[b"x"]));
    }

    #[test]
    fn text_form_round_trips_and_refuses_anything_else() {
        let digest = Digest::compute(DigestDomain::Contract, &[b"x"]);
        assert_eq!(Digest::try_from(digest.to_string()), Ok(digest));
        for text in ["", "sha256:", "md5:00", &digest.to_string().to_uppercase(), &format!("{digest}0")] {
            assert!(Digest::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
