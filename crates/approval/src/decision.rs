//! A person's decision about a ticket, as a statement that the gateway signs when the person made it. An outsider can check it, and a row
//! that was written into the store by hand is no decision.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_authority::attestation::{AttestationKey, AttestationPublicKey, UnsignedStatement};
use servanda_contract::{Digest, digest::DigestDomain, json, tool::Presence};

use crate::{PasskeyAssertionRecord, PasskeyRecordFault, TicketId};

/// The domain of signatures under decisions.
const DOMAIN: &str = "servanda/approval-decision/v1";

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalVerdict {
    /// The call may be made.
    Approve,
    /// It may not.
    Deny,
}

/// What a person decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalDecision {
    /// The ticket.
    pub ticket: TicketId,
    /// H of the call that the person was shown.
    pub payload_hash: Digest,
    /// The decision.
    pub verdict: ApprovalVerdict,
    /// The person's tenant.
    pub tenant: String,
    /// The person.
    pub approver: String,
    /// The person's groups.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How sure the gateway was that the person decided.
    pub presence: Presence,
    /// Where the person signed in, and with which credential.
    pub credential: String,
    /// When, in milliseconds since the epoch.
    pub at_ms: u64,
    /// Why, in the person's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the person used the emergency role.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub break_glass: bool,
}

/// A decision with the gateway's signature, and with the person's if a passkey was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedDecision {
    /// The decision.
    pub decision: ApprovalDecision,
    /// The key that signed it.
    pub key_id: String,
    /// The signature over the canonical bytes of the decision, and of the passkey's assertion if there is one.
    pub signature: String,
    /// The assertion of the person's passkey.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passkey: Option<PasskeyAssertionRecord>,
}

/// Why a decision counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    /// No known key signed it, or it was changed afterwards.
    #[error("the gateway did not sign this decision")]
    Signature,
    /// It cannot be written canonically.
    #[error("the decision cannot be encoded")]
    Encoding,
    /// It says that a passkey signed it, and has no assertion of one.
    #[error("the decision says that a passkey signed it, and no passkey did")]
    NoPasskey,
    /// The assertion in it is not one of this decision.
    #[error("the passkey did not sign this decision: {0}")]
    Passkey(PasskeyRecordFault),
}

/// The challenge that a passkey signs for a decision: the ticket, its payload, the decision, and the approver's tenant and name.
pub fn passkey_decision_challenge(
    ticket: &TicketId,
    payload: &Digest,
    verdict: ApprovalVerdict,
    approver: (&str, &str),
) -> Digest {
    let (tenant, person) = approver;
    let parts: [&[u8]; 5] = [
        ticket.as_str().as_bytes(),
        payload.as_bytes(),
        verdict.word().as_bytes(),
        tenant.as_bytes(),
        person.as_bytes(),
    ];
    Digest::compute(DigestDomain::PasskeyDecision, &parts)
}

impl ApprovalVerdict {
    /// The word in statements and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }
}

impl ApprovalDecision {
    /// What the person's passkey signs as its challenge.
    pub fn passkey_challenge(&self) -> Digest {
        let approver = (self.tenant.as_str(), self.approver.as_str());
        passkey_decision_challenge(&self.ticket, &self.payload_hash, self.verdict, approver)
    }

    /// Signs the decision.
    pub fn sign(
        self,
        passkey: Option<PasskeyAssertionRecord>,
        key: &AttestationKey,
    ) -> Result<SignedDecision, UnsignedStatement> {
        let unsigned =
            SignedDecision { decision: self, key_id: key.public().key_id(), signature: String::new(), passkey };
        // A statement of texts and numbers always has canonical bytes.
        let signature = key.sign(DOMAIN, &unsigned.statement().unwrap_or_default())?;
        Ok(SignedDecision { signature, ..unsigned })
    }
}

impl SignedDecision {
    /// Checks that one of these keys signed it, and that the person's passkey did if it says so. An assertion that nothing demands has to
    /// be right all the same.
    pub fn verify(&self, keys: &[AttestationPublicKey]) -> Result<(), DecisionFault> {
        let statement = self.statement().ok_or(DecisionFault::Encoding)?;
        let key = keys.iter().find(|key| key.key_id() == self.key_id).ok_or(DecisionFault::Signature)?;
        key.verify(DOMAIN, &statement, &self.signature).map_err(|_| DecisionFault::Signature)?;
        match &self.passkey {
            Some(record) => record.verify(&self.decision.passkey_challenge()).map_err(DecisionFault::Passkey),
            None if self.decision.presence == Presence::Passkey => Err(DecisionFault::NoPasskey),
            None => Ok(()),
        }
    }

    fn statement(&self) -> Option<Vec<u8>> {
        let document = serde_json::json!({ "decision": self.decision, "key_id": self.key_id, "passkey": self.passkey });
        json::canonicalize(&document).ok().map(|canonical| canonical.bytes().to_vec())
    }
}
