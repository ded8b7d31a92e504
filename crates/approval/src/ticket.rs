//! A ticket: one request for an approval, from the call that needs it to the call that uses it.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use servanda_contract::{CallId, Caller, CallerActor, Digest, digest::DigestDomain, preview::UpstreamPreview};

use crate::{ApprovalDemand, ApprovalVerdict, Deadline, SignedDecision, StandingGrant, TicketId};

/// What a ticket is looked up by: the requester, its agents and the payload. The contract's version is left out, so that a new version
/// finds the ticket of the old one and supersedes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TicketKey(Digest);

/// The state of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketState {
    /// People may decide.
    Pending,
    /// Enough people approved; the call may be made once.
    Approved,
    /// A person denied it.
    Denied,
    /// Nobody decided in time, which denies it.
    AutoDenied,
    /// What it was about changed before it was used.
    Superseded,
    /// The approved call was dispatched.
    Consumed,
    /// It was approved and not used in time.
    Lapsed,
}

/// One request for an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// Its id.
    pub id: TicketId,
    /// What it is looked up by.
    pub key: TicketKey,
    /// What is to be approved.
    pub subject: TicketSubject,
    /// The approval that is needed.
    pub demand: ApprovalDemand,
    /// Its state.
    pub state: TicketState,
    /// The decisions so far, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<SignedDecision>,
    /// When it was opened, by the store's clock.
    pub created_ms: u64,
    /// When it last changed, by the store's clock.
    pub changed_ms: u64,
    /// When the time to decide is over, by the store's clock and in ledger time. Either ends it.
    pub decide_by: Deadline,
    /// When the approval can no longer be used; none before it is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub use_by: Option<Deadline>,
    /// When people decided, or the time was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_ms: Option<u64>,
    /// How many notices people got while it waited.
    #[serde(default)]
    pub notices_sent: u8,
    /// Whether people were told what it came to.
    #[serde(default)]
    pub outcome_sent: bool,
    /// Whether the requester was told that the ticket ended without a decision or without use.
    #[serde(default)]
    pub told: bool,
    /// The ticket of the same call that ended before this one was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<TicketId>,
    /// Why it was superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The call that used it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumed: Option<TicketConsumption>,
    /// The grant that a person made from it: calls like this one are allowed from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Box<StandingGrant>>,
}

/// What is to be approved: a call as its requester proposed it, or a plan of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketSubject {
    /// The tenant.
    pub tenant: String,
    /// The user for whom the call is made.
    pub principal: String,
    /// The agents that act for the user, the acting one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
    /// The credential of the request; none in local mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// What the client calls itself. Never trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The run that the call belongs to.
    pub run: String,
    /// The call that opened the ticket.
    pub call_id: CallId,
    /// Its trace.
    pub trace_id: String,
    /// The exposed name as called.
    pub tool: String,
    /// The contract's name.
    pub contract: String,
    /// The contract's version.
    pub contract_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The upstream that performs it.
    pub upstream: String,
    /// H: the digest of tenant, tool, contract and canonical arguments. It is what people approve.
    pub payload: Digest,
    /// The canonical arguments. A store keeps them separately.
    #[serde(skip)]
    pub arguments: Bytes,
    /// What the contract says happens, with the arguments filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The state that the contract expects afterwards, with the arguments filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The state before the call, as the contract's read tool showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StateBefore>,
    /// What the upstream's own dry run said, if the contract names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_preview: Option<TicketPreview>,
    /// The tool that undoes it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation: Option<String>,
    /// The key by which repetitions are recognised, in a form that people can compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What the call costs at most, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// The sensitive arguments: JSON Pointer and `x-sensitivity`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sensitive: BTreeMap<String, String>,
    /// The approval that each call of a proposed plan needs, in the order of the plan's calls among the arguments; empty if this is a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<ApprovalDemand>,
}

/// What a read-only tool showed before the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateBefore {
    /// The tool.
    pub tool: String,
    /// When it was asked.
    pub at_ms: u64,
    /// Its structured answer, or why there is none.
    pub state: Result<Value, String>,
    /// The sensitive parts of its answer: JSON Pointer and `x-sensitivity`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sensitive: BTreeMap<String, String>,
}

/// What the upstream's own dry run of the call said when the ticket was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketPreview {
    /// When it was asked.
    pub at_ms: u64,
    /// What it said, or why it said nothing.
    pub preview: UpstreamPreview,
    /// The sensitive parts of what it said: JSON Pointer and `x-sensitivity`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sensitive: BTreeMap<String, String>,
}

/// The call that used an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketConsumption {
    /// The call.
    pub call_id: CallId,
    /// Its effect.
    pub effect_id: String,
    /// The digest of the warrant.
    pub warrant: Digest,
    /// When, by the store's clock.
    pub at_ms: u64,
}

impl TicketKey {
    /// The key of a caller's payload. `payload` must not depend on the contract's version.
    pub fn new(caller: &Caller, payload: &Digest) -> Self {
        let mut parts: Vec<&[u8]> = vec![caller.tenant.as_bytes(), caller.principal.as_bytes(), payload.as_bytes()];
        for actor in &caller.actors {
            parts.push(actor.name.as_bytes());
            parts.push(if actor.proven { b"proven" } else { b"claimed" });
        }
        Self(Digest::compute(DigestDomain::TicketKey, &parts))
    }

    /// The digest.
    pub const fn digest(&self) -> &Digest {
        &self.0
    }
}

impl From<Digest> for TicketKey {
    fn from(digest: Digest) -> Self {
        Self(digest)
    }
}

impl TicketState {
    /// Every state, in the order of a ticket's life.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Approved, Self::Denied, Self::AutoDenied, Self::Superseded, Self::Consumed, Self::Lapsed];

    /// The text form in storage and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::AutoDenied => "auto_denied",
            Self::Superseded => "superseded",
            Self::Consumed => "consumed",
            Self::Lapsed => "lapsed",
        }
    }

    /// The state with that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The state for people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Pending => "waiting for a decision",
            Self::Approved => "approved, not used yet",
            Self::Denied => "denied by a person",
            Self::AutoDenied => "nobody decided in time",
            Self::Superseded => "superseded",
            Self::Consumed => "approved and used",
            Self::Lapsed => "approved, but not used in time",
        }
    }

    /// Whether time can still end it.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Approved)
    }
}

impl Ticket {
    /// The requester.
    pub fn requester(&self) -> Caller {
        let actors = self.subject.actors.clone();
        Caller { actors, ..Caller::named(&self.subject.tenant, &self.subject.principal) }
    }

    /// Whether it is about a plan that an agent proposes, and not about one call.
    pub fn is_plan(&self) -> bool {
        !self.subject.plan.is_empty()
    }

    /// How many people have approved.
    pub fn approvals(&self) -> usize {
        self.decisions.iter().filter(|signed| signed.decision.verdict == ApprovalVerdict::Approve).count()
    }

    /// The decision that denied it, if a person did.
    pub fn denial(&self) -> Option<&SignedDecision> {
        self.decisions.iter().find(|signed| signed.decision.verdict == ApprovalVerdict::Deny)
    }

    /// When it may be forgotten if it is over: a time after its last change.
    pub const fn forgettable_ms(&self, kept_ms: u64) -> Option<u64> {
        if self.state.is_open() { None } else { Some(self.changed_ms.saturating_add(kept_ms)) }
    }
}
