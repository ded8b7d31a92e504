//! A grant: what a person allows from now on, as a statement that the gateway signs when the person makes it. It covers calls of one caller
//! to one contract whose arguments are within its bounds, a number of times, for some days. A plan is a grant for calls like several approved
//! ones: one statement, one number of times for all of them together, one revocation.
//!
//! It is kept with the ticket it was made from. Whether arguments are within the bounds is decided by a Cedar policy that says the same
//! (`servanda_policy`); drawing on it is `grant_step`'s.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use servanda_authority::attestation::{AttestationKey, AttestationPublicKey, UnsignedStatement};
use servanda_contract::{
    CallId, Caller, CallerActor, Digest,
    digest::DigestDomain,
    json,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};

use crate::{ApprovalCause, ApprovalDemand, Deadline, TicketId, grant_bounds::ArgumentBound};

/// The domain of signatures under grants.
const DOMAIN: &str = "servanda/grant/v1";

/// What the grants for a caller's calls of a tool are looked up by. The contract's version is left out, so that a grant for an earlier one
/// can be told to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GrantKey(Digest);

/// What a person allows from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalGrant {
    /// The ticket that it was made from.
    pub ticket: TicketId,
    /// H of the call that was approved.
    pub payload_hash: Digest,
    /// The tenant.
    pub tenant: String,
    /// The user for whom calls are made.
    pub principal: String,
    /// The agents that act for the user, the acting one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// The contract's name.
    pub tool_name: String,
    /// The contract's version.
    pub tool_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The approval that the call needed.
    pub demand: ApprovalDemand,
    /// What each argument may be. A call with other arguments than these is not covered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<ArgumentBound>,
    /// The other calls of a plan; none if it is for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<PlannedCall>,
    /// How many calls it covers, all together.
    pub uses_max: u32,
    /// When it ends, in milliseconds since the epoch.
    pub until_ms: u64,
    /// The person who made it.
    pub approver: String,
    /// The person's groups.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How sure the gateway was that the person made it.
    pub presence: Presence,
    /// Where the person signed in, and with which credential.
    pub credential: String,
    /// When it was made.
    pub at_ms: u64,
}

/// A further call of a plan. It is of the same caller, and everything that is not said here is as in the grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedCall {
    /// The ticket on which people approved such a call.
    pub ticket: TicketId,
    /// H of the call that was approved.
    pub payload_hash: Digest,
    /// The contract's name.
    pub tool_name: String,
    /// The contract's version.
    pub tool_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The approval that the call needed.
    pub demand: ApprovalDemand,
    /// What each argument may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<ArgumentBound>,
}

/// A grant with the gateway's signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedGrant {
    /// The grant.
    pub grant: ApprovalGrant,
    /// The key that signed it.
    pub key_id: String,
    /// The signature over its canonical bytes.
    pub signature: String,
}

/// A grant as a store keeps it: what was signed, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingGrant {
    /// What the person allowed.
    pub signed: SignedGrant,
    /// When it ends, on both clocks of the store.
    pub until: Deadline,
    /// The calls that drew on it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draws: Vec<GrantDraw>,
    /// Who took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<GrantRevocation>,
}

/// A call that drew on a grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantDraw {
    /// The call.
    pub call_id: CallId,
    /// Its effect.
    pub effect_id: String,
    /// H of the call.
    pub payload: Digest,
    /// When, by the store's clock.
    pub at_ms: u64,
}

/// That a person took a grant back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRevocation {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When, by the store's clock.
    pub at_ms: u64,
}

/// Why a grant cannot be drawn on any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// A person took it back.
    Revoked,
    /// Its time is over.
    Expired,
    /// It was drawn on as often as it may be.
    UsedUp,
}

/// The call that a grant must cover.
#[derive(Debug, Clone, Copy)]
pub struct GrantExpectation<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The user.
    pub principal: &'a str,
    /// The agents.
    pub actors: &'a [CallerActor],
    /// The contract's name.
    pub tool: &'a str,
    /// The contract's digest.
    pub contract_digest: &'a Digest,
    /// The approval that the call needs.
    pub demand: &'a ApprovalDemand,
    /// H of the call.
    pub payload: &'a Digest,
    /// The time.
    pub now_ms: u64,
}

/// Evidence: a known key signed the grant, and one of its calls is of this caller and contract, may give what the call needs, has its time not
/// over and admits the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedGrant {
    ticket: TicketId,
    payload: Digest,
    digest: Digest,
}

/// Why a grant does not cover a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantFault {
    /// No known key signed it, or it was changed.
    #[error("no known key signed it, or it was changed afterwards")]
    Signature,
    /// It is for other calls.
    #[error("it is for other calls: {0}")]
    OtherCalls(&'static str),
    /// What the call needs cannot come from it.
    #[error("the call needs more than a grant can give: {0}")]
    NeedsPeople(&'static str),
    /// Its time is over.
    #[error("it has ended")]
    Expired,
    /// The arguments are not within its bounds.
    #[error("the arguments are not within its bounds")]
    Bounds,
}

impl GrantKey {
    /// The key of a caller's calls of a tool.
    pub fn new(caller: &Caller, tool: &str) -> Self {
        let mut parts: Vec<&[u8]> = vec![caller.tenant.as_bytes(), caller.principal.as_bytes(), tool.as_bytes()];
        for actor in &caller.actors {
            parts.push(actor.name.as_bytes());
            parts.push(if actor.proven { b"proven" } else { b"claimed" });
        }
        Self(Digest::compute(DigestDomain::GrantKey, &parts))
    }

    /// The digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl ApprovalGrant {
    /// What it is looked up by: one key for each of its tools.
    pub fn keys(&self) -> BTreeSet<GrantKey> {
        let caller = Caller { actors: self.actors.clone(), ..Caller::named(&self.tenant, &self.principal) };
        let further = self.further.iter().map(|call| &call.tool_name);
        std::iter::once(&self.tool_name).chain(further).map(|tool| GrantKey::new(&caller, tool)).collect()
    }

    /// What it allows, as one grant for each of its calls. Each is looked at by itself, so that what one call needed is never paired with the
    /// bounds of another.
    pub fn single_grants(&self) -> Vec<Self> {
        let of_first = Self { further: Vec::new(), ..self.clone() };
        let of_further = |call: &PlannedCall| Self {
            ticket: call.ticket.clone(),
            payload_hash: call.payload_hash,
            tool_name: call.tool_name.clone(),
            tool_version: call.tool_version.clone(),
            contract_digest: call.contract_digest,
            demand: call.demand.clone(),
            bounds: call.bounds.clone(),
            ..of_first.clone()
        };
        let further: Vec<Self> = self.further.iter().map(of_further).collect();
        std::iter::once(of_first).chain(further).collect()
    }

    /// Its tools in words: `bank.pay`, or `bank.pay and 2 more calls`.
    pub fn tools_in_words(&self) -> String {
        match self.further.len() {
            0 => self.tool_name.clone(),
            1 => format!("{} and 1 more call", self.tool_name),
            more => format!("{} and {more} more calls", self.tool_name),
        }
    }

    /// Checks everything about a call but its arguments.
    fn check_call(&self, expected: &GrantExpectation<'_>) -> Result<(), GrantFault> {
        let same = [
            (self.tenant == expected.tenant && self.principal == expected.principal, "another caller"),
            (self.actors == expected.actors, "another agent"),
            (self.tool_name == expected.tool, "another tool"),
            (self.contract_digest == *expected.contract_digest, "another version of the contract"),
        ];
        if let Some((_, what)) = same.into_iter().find(|(is_same, _)| !is_same) {
            return Err(GrantFault::OtherCalls(what));
        }
        needs_people(expected.demand).map_or(Ok(()), |why| Err(GrantFault::NeedsPeople(why)))?;
        if !self.demand.still_satisfies(expected.demand) || self.presence < expected.demand.presence {
            return Err(GrantFault::NeedsPeople("more than when the grant was made"));
        }
        if expected.now_ms >= self.until_ms {
            return Err(GrantFault::Expired);
        }
        Ok(())
    }

    /// Signs it.
    pub fn sign(self, key: &AttestationKey) -> Result<SignedGrant, UnsignedStatement> {
        let unsigned = SignedGrant { grant: self, key_id: key.public().key_id(), signature: String::new() };
        let signature = key.sign(DOMAIN, &unsigned.statement())?;
        Ok(SignedGrant { signature, ..unsigned })
    }
}

impl SignedGrant {
    /// The digest by which a draw names it.
    pub fn digest(&self) -> Digest {
        Digest::compute(DigestDomain::Grant, &[&self.statement(), self.signature.as_bytes()])
    }

    /// Checks that one of these keys signed it.
    pub fn check(&self, keys: &[AttestationPublicKey]) -> Result<(), GrantFault> {
        let key = keys.iter().find(|key| key.key_id() == self.key_id).ok_or(GrantFault::Signature)?;
        key.verify(DOMAIN, &self.statement(), &self.signature).map_err(|_| GrantFault::Signature)
    }

    /// Checks that one of its calls covers a call. Whether a grant for one call admits the arguments is for its policy to say.
    pub fn verify(
        &self,
        keys: &[AttestationPublicKey],
        expected: &GrantExpectation<'_>,
        admits: impl Fn(&ApprovalGrant) -> bool,
    ) -> Result<VerifiedGrant, GrantFault> {
        self.check(keys)?;
        let mut fault = GrantFault::OtherCalls("another tool");
        for single in self.grant.single_grants() {
            match single.check_call(expected) {
                Ok(()) if admits(&single) => {
                    let (ticket, digest) = (self.grant.ticket.clone(), self.digest());
                    return Ok(VerifiedGrant { ticket, payload: *expected.payload, digest });
                }
                Ok(()) => fault = GrantFault::Bounds,
                Err(other) => fault = other,
            }
        }
        Err(fault)
    }

    fn statement(&self) -> Vec<u8> {
        let document = serde_json::json!({ "grant": self.grant, "key_id": self.key_id });
        // A statement of texts and numbers always has canonical bytes; without them no signature holds.
        json::canonicalize(&document).map(|canonical| canonical.bytes().to_vec()).unwrap_or_default()
    }
}

impl StandingGrant {
    /// Why it cannot be drawn on any more, if it cannot.
    pub fn end(&self, now_ms: u64, ledger_ms: u64) -> Option<GrantEnd> {
        if self.revoked.is_some() {
            Some(GrantEnd::Revoked)
        } else if self.until.has_passed(now_ms, ledger_ms) {
            Some(GrantEnd::Expired)
        } else if self.draws.len() >= usize::try_from(self.signed.grant.uses_max).unwrap_or_default() {
            Some(GrantEnd::UsedUp)
        } else {
            None
        }
    }

    /// Which use of it, counted from one, a call was.
    pub fn use_of(&self, call_id: &CallId) -> Option<usize> {
        self.draws.iter().position(|draw| draw.call_id == *call_id).map(|before| before + 1)
    }
}

impl GrantEnd {
    /// The end in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Revoked => "a person took it back",
            Self::Expired => "its time is over",
            Self::UsedUp => "it is used up",
        }
    }
}

impl VerifiedGrant {
    /// The ticket that it is kept with.
    pub const fn ticket(&self) -> &TicketId {
        &self.ticket
    }

    /// H of the call.
    pub const fn payload(&self) -> &Digest {
        &self.payload
    }

    /// The digest of the grant.
    pub const fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// Why people decide about every single call that needs this approval, if they do.
pub(crate) fn needs_people(demand: &ApprovalDemand) -> Option<&'static str> {
    let is_critical = demand.class == SideEffectClass::CriticalMutation
        || demand.causes.iter().any(|cause| matches!(cause, ApprovalCause::CriticalScope(_)));
    let is_for_one = matches!(demand.pattern, ApprovalPattern::Consent | ApprovalPattern::Operator);
    let reasons = [
        (is_critical, "it is a critical change"),
        (!is_for_one, "its pattern asks people about each call"),
        (demand.quorum != 1, "several people have to approve it"),
        (demand.presence == Presence::Passkey, "a passkey has to sign each decision"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
}
