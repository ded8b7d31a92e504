//! The shape of leaves: the audit fields of the specification (seed 001 §13.11.3) and the state changes between them.
//!
//! The fields of each shape stand in the order of their names, because that is the order of its bytes (`canonical`). Deliberately not here:
//! bytes, and which leaf may follow which.

use serde::{Deserialize, Serialize};

use super::commitment::Commitment;

/// One leaf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditLeaf {
    /// When it happened, in milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    pub event: AuditEvent,
    /// The version of the shape.
    pub v: u32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A call was decided, and something may be sent for it.
    Decision(Box<DecisionLeaf>),
    /// A call that was decided before has ended.
    Outcome(Box<OutcomeLeaf>),
    /// A call was decided and has ended.
    Call(Box<CallLeaf>),
    /// An effect changed its state.
    Effect(EffectLeaf),
    /// A ticket changed its state.
    Ticket(TicketLeaf),
    /// A person decided about a ticket.
    Approval(ApprovalLeaf),
    /// Something else changed that decisions depend on.
    Change(ChangeLeaf),
}

impl AuditEvent {
    /// The call that it is about, if it is about one.
    pub fn call(&self) -> Option<&str> {
        match self {
            Self::Decision(decision) => Some(&decision.call),
            Self::Outcome(outcome) => Some(&outcome.call),
            Self::Call(call) => Some(&call.decision.call),
            Self::Effect(effect) => Some(&effect.call),
            Self::Ticket(ticket) => ticket.call.as_deref(),
            Self::Change(change) => change.call.as_deref(),
            Self::Approval(_) => None,
        }
    }
}

/// The decision about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionLeaf {
    /// The agents that act for the caller, the acting one first (`agentId`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// The call.
    pub call: String,
    /// For whom the call is made (`callerId`).
    pub caller: String,
    /// The class of the refusal (`errorCode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The contract that decided; none if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<LeafContract>,
    /// The gate that refused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The arguments (`inputHash`).
    pub input: Commitment,
    /// Whether it changes something (`mutationClass`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<LeafMutation>,
    /// The upstream's own name for what is done (`operation`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The digest of the policies and rules in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<String>,
    /// The tenant.
    pub tenant: String,
    /// The ticket that it needs or uses (`approvalTicketId`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
    /// The exposed name as called (`toolId`).
    pub tool: String,
    /// Its trace.
    pub trace: String,
    /// The decision (`authDecision`).
    pub verdict: LeafVerdict,
}

/// The contract that a decision was based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafContract {
    /// Its digest.
    pub digest: String,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Whether a call changes something, and whether that can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafMutation {
    /// It changes nothing.
    Read,
    /// It can be undone.
    WriteReversible,
    /// It cannot.
    WriteIrreversible,
}

/// The decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafVerdict {
    /// It may be made.
    Allow,
    /// It may not.
    Deny,
    /// People have to decide first.
    RequiresApproval,
}

/// A call that was decided and ended in one commit: it was refused, or it changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallLeaf {
    /// The decision.
    pub decision: DecisionLeaf,
    /// The end.
    pub outcome: OutcomeLeaf,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeLeaf {
    /// The call.
    pub call: String,
    /// The class of the error (`errorCode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The effect that the call performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// How it ended, in the gateway's word.
    pub outcome: String,
    /// The answer (`outputSummary`, with its size).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Commitment>,
    /// Bytes of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
    /// The changes that probes saw (`sideEffects`), by the contract's names of what is probed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub side_effects: Vec<String>,
    /// How it ended, in the specification's word (`status`); none while it may still end in another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<LeafStatus>,
    /// How long it took (`latencyMs`).
    pub took_ms: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafStatus {
    /// It was done.
    Success,
    /// It failed.
    Error,
    /// No answer came in time; whether it was done may be unknown.
    Timeout,
}

/// A new state of an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectLeaf {
    /// The call that owns it.
    pub call: String,
    /// The effect.
    pub effect: String,
    /// How often it was taken.
    pub epoch: u64,
    /// The new state.
    pub to: LeafEffectState,
}

/// The states of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafEffectState {
    /// A call owns it and has sent nothing yet.
    Claimed,
    /// Bytes may have left.
    Dispatching,
    /// It is done.
    Completed,
    /// It failed for good.
    FailedFinal,
    /// It never ran.
    FailedRetryable,
    /// Its outcome is unknown.
    OutcomeUnknown,
    /// It was undone.
    Compensated,
    /// Its key is never used again.
    Expired,
}

/// A new state of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketLeaf {
    /// The call that opened or used it; none if neither did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What is to be approved, when it is opened. All leaves of a ticket have the same salt, so that they can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Commitment>,
    /// How many people have to approve, when it is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<u8>,
    /// The ticket.
    pub ticket: String,
    /// The new state.
    pub to: LeafTicketState,
    /// The digest of the warrant, when it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warrant: Option<String>,
}

/// The states of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafTicketState {
    /// People may decide.
    Pending,
    /// Enough people approved.
    Approved,
    /// A person denied it.
    Denied,
    /// No person decided in time.
    AutoDenied,
    /// What it was about changed.
    Superseded,
    /// The approved call was dispatched.
    Consumed,
    /// It was not used in time.
    Lapsed,
}

/// A person's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalLeaf {
    /// Whether the person approved.
    pub approves: bool,
    /// The person.
    pub by: String,
    /// What the person was shown.
    pub payload: Commitment,
    /// The decision as it was signed. A signature that everybody can see would tell whether a guess of the payload is right.
    pub statement: Commitment,
    /// The ticket.
    pub ticket: String,
}

/// A change of something that decisions depend on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeLeaf {
    /// The person, or the part of the gateway, that changed it.
    pub by: String,
    /// The call for which it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What became of it, in the gateway's word.
    pub change: String,
    /// The digest of what it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Which one.
    pub id: String,
    /// What kind of thing.
    pub thing: ChangedThing,
}

/// What can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangedThing {
    /// An approval for one dispatch.
    Warrant,
    /// An approval for several calls.
    Grant,
    /// What a party may still draw.
    Budget,
    /// What a tool takes and does.
    Contract,
    /// A rule of the operator.
    Policy,
    /// What is held back until a person has looked.
    Quarantine,
    /// An unknown outcome that became known.
    Settlement,
}
