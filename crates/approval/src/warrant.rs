//! A warrant: the signed token that an approved call is dispatched with, and that outsiders check. It holds what was approved and every
//! person's own signed decision.
//!
//! `svw1.` payload `.` signature, both in base64url; the payload is canonical JSON. The gateway makes it from the ticket when the call is
//! taken up, the gate verifies it, and the store consumes the ticket in the transaction that lets bytes leave.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_authority::attestation::{AttestationKey, AttestationPublicKey, UnsignedStatement};
use servanda_contract::{
    CallerActor, Digest,
    digest::DigestDomain,
    json,
    tool::{ApprovalPattern, Presence},
};

use crate::{ApprovalVerdict, DecisionFault, SignedDecision, Ticket, TicketId, TicketState, step::needed};

const PREFIX: &str = "svw1.";
const DOMAIN: &str = "servanda/warrant/v1";
/// `approval_scope`: one dispatch.
const SINGLE_EXECUTION: &str = "single_execution";
const APPROVED: &str = "approved";

/// A signed warrant, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Warrant(String);

/// What a warrant says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarrantClaims {
    /// The ticket.
    pub approval_id: TicketId,
    /// The trace of the call that asked.
    pub trace_id: String,
    /// The tenant.
    pub tenant: String,
    /// The user for whom the call is made.
    pub principal: String,
    /// The agents that act for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// The contract's name.
    pub tool_name: String,
    /// The contract's version.
    pub tool_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// H: the digest of what was approved.
    pub payload_hash: Digest,
    /// Who had to decide.
    pub pattern: ApprovalPattern,
    /// How many people had to approve.
    pub quorum: u8,
    /// How sure the gateway had to be that people decided.
    pub presence: Presence,
    /// The people who approved, each with a signed decision.
    pub approvers: Vec<SignedDecision>,
    /// When the last of them did, in milliseconds since the epoch.
    pub approved_at_ms: u64,
    /// When it can no longer be used.
    pub expires_at_ms: u64,
    /// `single_execution`.
    pub approval_scope: String,
    /// `approved`.
    pub decision: String,
    /// The key that signed it.
    pub key_id: String,
}

/// The call that a warrant must be for.
#[derive(Debug, Clone, Copy)]
pub struct WarrantExpectation<'a> {
    /// The ticket of the call.
    pub ticket: &'a TicketId,
    /// The trace of the ticket.
    pub trace_id: &'a str,
    /// The tenant.
    pub tenant: &'a str,
    /// The user.
    pub principal: &'a str,
    /// The agents.
    pub actors: &'a [CallerActor],
    /// The contract's name.
    pub tool: &'a str,
    /// The contract's version.
    pub version: &'a str,
    /// The contract's digest.
    pub contract_digest: &'a Digest,
    /// H of the call.
    pub payload: &'a Digest,
    /// The time.
    pub now_ms: u64,
}

/// Evidence: a warrant for this very call that a known key signed, with enough signed decisions, and that has not expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedWarrant {
    ticket: TicketId,
    payload: Digest,
    digest: Digest,
}

/// Why a warrant is worth nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WarrantFault {
    /// It is not a warrant.
    #[error("it is not a warrant")]
    Malformed,
    /// No known key signed it, or it was changed.
    #[error("no known key signed it, or it was changed afterwards")]
    Signature,
    /// It is for another call: other arguments, tool, contract or caller.
    #[error("it is for another call: {0}")]
    OtherCall(&'static str),
    /// It belongs to another ticket or trace.
    #[error("it belongs to another ticket")]
    Detached,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// It does not say that the call was approved once.
    #[error("it does not approve a single execution")]
    NotApproved,
    /// Not enough people approved, or a decision is for another payload, is one person's second, is of a person who was not present enough, or
    /// has the passkey of another person.
    #[error("the decisions in it do not approve the call")]
    Approvers,
    /// A decision in it is not signed by the gateway, or not by the passkey by which it says it is.
    #[error("a decision in it does not hold: {0}")]
    Decision(DecisionFault),
}

impl Warrant {
    /// Makes the warrant of an approved ticket; none if the ticket is not approved.
    pub fn issue(ticket: &Ticket, key: &AttestationKey) -> Result<Option<Self>, UnsignedStatement> {
        let (TicketState::Approved | TicketState::Consumed, Some(use_by)) = (ticket.state, ticket.use_by) else {
            return Ok(None);
        };
        let subject = &ticket.subject;
        let approvals = ticket.decisions.iter().filter(|signed| signed.decision.verdict == ApprovalVerdict::Approve);
        let claims = WarrantClaims {
            approval_id: ticket.id.clone(),
            trace_id: subject.trace_id.clone(),
            tenant: subject.tenant.clone(),
            principal: subject.principal.clone(),
            actors: subject.actors.clone(),
            tool_name: subject.contract.clone(),
            tool_version: subject.contract_version.clone(),
            contract_digest: subject.contract_digest,
            payload_hash: subject.payload,
            pattern: ticket.demand.pattern,
            quorum: u8::try_from(needed(ticket)).unwrap_or(u8::MAX),
            presence: ticket.demand.presence,
            approvers: approvals.cloned().collect(),
            approved_at_ms: ticket.decided_ms.unwrap_or_default(),
            expires_at_ms: use_by.clock_ms,
            approval_scope: SINGLE_EXECUTION.to_owned(),
            decision: APPROVED.to_owned(),
            key_id: key.public().key_id(),
        };
        let Some(payload) = canonical(&claims) else { return Ok(None) };
        let signature = key.sign(DOMAIN, &payload)?;
        Ok(Some(Self(format!("{PREFIX}{}.{signature}", URL_SAFE_NO_PAD.encode(payload)))))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest by which a ticket remembers it.
    pub fn digest(&self) -> Digest {
        Digest::compute(DigestDomain::Warrant, &[self.0.as_bytes()])
    }

    /// Checks everything that can be checked without knowing the call: the signatures, and that enough different people approved.
    pub fn check(&self, keys: &[AttestationPublicKey]) -> Result<WarrantClaims, WarrantFault> {
        let (payload, signature) = self.parts().ok_or(WarrantFault::Malformed)?;
        let claims: WarrantClaims = serde_json::from_slice(&payload).map_err(|_| WarrantFault::Malformed)?;
        let key = keys.iter().find(|key| key.key_id() == claims.key_id).ok_or(WarrantFault::Signature)?;
        key.verify(DOMAIN, &payload, signature).map_err(|_| WarrantFault::Signature)?;
        if canonical(&claims).as_deref() != Some(&payload) {
            return Err(WarrantFault::Malformed);
        }
        if claims.approval_scope != SINGLE_EXECUTION || claims.decision != APPROVED || claims.quorum == 0 {
            return Err(WarrantFault::NotApproved);
        }
        let (mut people, mut passkeys) = (Vec::new(), Vec::new());
        for signed in &claims.approvers {
            let decision = &signed.decision;
            let counts = decision.verdict == ApprovalVerdict::Approve
                && decision.ticket == claims.approval_id
                && decision.payload_hash == claims.payload_hash
                && decision.tenant == claims.tenant
                && decision.presence >= claims.presence
                && !people.contains(&&decision.approver)
                && signed.passkey.as_ref().is_none_or(|passkey| !passkeys.contains(&&passkey.public_key));
            if !counts {
                return Err(WarrantFault::Approvers);
            }
            signed.verify(keys).map_err(WarrantFault::Decision)?;
            people.push(&decision.approver);
            passkeys.extend(signed.passkey.as_ref().map(|passkey| &passkey.public_key));
        }
        if people.len() < usize::from(claims.quorum) { Err(WarrantFault::Approvers) } else { Ok(claims) }
    }

    /// Checks that it approves this very call, now.
    pub fn verify(
        &self,
        keys: &[AttestationPublicKey],
        expected: &WarrantExpectation<'_>,
    ) -> Result<VerifiedWarrant, WarrantFault> {
        let claims = self.check(keys)?;
        let same = [
            (claims.payload_hash == *expected.payload, "other arguments"),
            (claims.tenant == expected.tenant && claims.principal == expected.principal, "another caller"),
            (claims.actors == expected.actors, "another agent"),
            (claims.tool_name == expected.tool, "another tool"),
            (claims.tool_version == expected.version, "another version of the tool"),
            (claims.contract_digest == *expected.contract_digest, "another contract"),
        ];
        if let Some((_, what)) = same.into_iter().find(|(is_same, _)| !is_same) {
            return Err(WarrantFault::OtherCall(what));
        }
        if claims.approval_id != *expected.ticket || claims.trace_id != expected.trace_id {
            return Err(WarrantFault::Detached);
        }
        if expected.now_ms >= claims.expires_at_ms {
            return Err(WarrantFault::Expired);
        }
        Ok(VerifiedWarrant { ticket: claims.approval_id, payload: claims.payload_hash, digest: self.digest() })
    }

    fn parts(&self) -> Option<(Vec<u8>, &str)> {
        let (payload, signature) = self.0.strip_prefix(PREFIX)?.split_once('.')?;
        Some((URL_SAFE_NO_PAD.decode(payload).ok()?, signature))
    }
}

impl From<String> for Warrant {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl VerifiedWarrant {
    /// The ticket that the call uses up.
    pub const fn ticket(&self) -> &TicketId {
        &self.ticket
    }

    /// H of the call.
    pub const fn payload(&self) -> &Digest {
        &self.payload
    }

    /// The digest of the warrant.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }
}

fn canonical(claims: &WarrantClaims) -> Option<Vec<u8>> {
    let document = serde_json::to_value(claims).ok()?;
    json::canonicalize(&document).ok().map(|canonical| canonical.bytes().to_vec())
}

#[cfg(test)]
mod tests;
