//! What opens the commitments of a leaf: the salt, and the digests of the contents as far as they are known. Whoever has the leaf, this and a
//! content computes the commitment again and compares. Nothing authenticates it: a wrong salt opens nothing.
//!
//! The salt of a call opens every leaf about that call, and no other. Without it nobody can compare a guess; with it everybody can, so that it
//! is shown on purpose only. Deliberately not here: contents, and their digests, which are the gateway's.

use serde::{Deserialize, Serialize};

use super::{
    commitment::{Commitment, SALT_BYTES},
    event::{AuditEvent, ChangedThing},
    salts::{LeafSalts, SaltedThing},
};

/// What opens the commitments of one leaf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafOpening {
    /// What the salt is for.
    pub thing: OpenedThing,
    /// Which one.
    pub id: String,
    /// The salt: 64 hex digits.
    pub salt: String,
    /// The commitments that it opens.
    pub opens: Vec<OpenedCommitment>,
}

/// What a salt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenedThing {
    /// A call.
    Call,
    /// A ticket.
    Ticket,
    /// What a budget holds.
    BudgetHold,
}

/// A commitment that a salt opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedCommitment {
    /// The member of the leaf.
    pub member: String,
    /// What stands there.
    pub commitment: Commitment,
    /// The digest of the content, if it is known: 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl LeafOpening {
    /// What opens a leaf. None if it has no commitment.
    pub fn of(event: &AuditEvent, salts: &LeafSalts) -> Option<Self> {
        let opened = |member: &str, commitment: Commitment| OpenedCommitment {
            member: member.to_owned(),
            commitment,
            digest: None,
        };
        let (thing, id, opens) = match event {
            AuditEvent::Decision(decision) => {
                (OpenedThing::Call, &decision.call, vec![opened("input", decision.input)])
            }
            AuditEvent::Outcome(outcome) => (
                OpenedThing::Call,
                &outcome.call,
                outcome.output.map(|output| opened("output", output)).into_iter().collect(),
            ),
            AuditEvent::Call(call) => {
                let output = call.outcome.output.map(|output| opened("output", output));
                let opens = std::iter::once(opened("input", call.decision.input)).chain(output).collect();
                (OpenedThing::Call, &call.decision.call, opens)
            }
            AuditEvent::Ticket(ticket) => (
                OpenedThing::Ticket,
                &ticket.ticket,
                ticket.payload.map(|payload| opened("payload", payload)).into_iter().collect(),
            ),
            AuditEvent::Approval(approval) => {
                let opens = vec![opened("payload", approval.payload), opened("statement", approval.statement)];
                (OpenedThing::Ticket, &approval.ticket, opens)
            }
            AuditEvent::Change(change) if change.thing == ChangedThing::Budget => {
                let digest = change.digest.as_deref().and_then(|digest| digest.parse().ok());
                let opens = digest.map(|digest| opened("digest", digest)).into_iter().collect();
                (OpenedThing::BudgetHold, &change.id, opens)
            }
            AuditEvent::Effect(_) | AuditEvent::Change(_) => return None,
        };
        let salted = match thing {
            OpenedThing::Call => SaltedThing::Call,
            OpenedThing::Ticket => SaltedThing::Ticket,
            OpenedThing::BudgetHold => SaltedThing::BudgetHold,
        };
        let salt = hex(&salts.salt(salted, id));
        (!opens.is_empty()).then(|| Self { thing, id: id.clone(), salt, opens })
    }

    /// Adds the digest of a content where it is what was committed to. Returns whether it is.
    pub fn add_digest(&mut self, member: &str, digest: &[u8; 32]) -> bool {
        let Some(salt) = bytes_of(&self.salt) else { return false };
        let opened = self.opens.iter_mut().find(|opened| opened.member == member);
        let opened = opened.filter(|opened| opened.commitment.is_opened_by(&salt, digest));
        opened.is_some_and(|opened| {
            opened.digest = Some(hex(digest));
            true
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn bytes_of(hex: &str) -> Option<[u8; SALT_BYTES]> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    if rest.is_empty() { bytes.try_into().ok() } else { None }
}
