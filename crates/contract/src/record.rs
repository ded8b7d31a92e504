//! The record every call leaves, refused ones too: enough to explain the decision gate by gate without the payload.
//!
//! Arguments and results are deliberately absent: a record holds their digests. What broke its contract is kept apart, in
//! quarantine, by the ledger.

mod policy;
mod summary;

use serde::{Deserialize, Serialize};

pub use policy::{PolicyRecord, ShadowDecision, ShadowRecord, Texts};
pub use summary::{CallSummary, ID_CHARS_MIN};

use crate::{
    CallId, Caller, Digest, GateName, Proposal, Refusal, TaxonomyClass, Timestamp,
    cost::Price,
    tool::{EffectClass, QuestionKind},
};

/// The version of the stored shape; readers refuse a newer one.
pub const RECORD_VERSION: u32 = 1;

/// One call, as stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRecord {
    /// [`RECORD_VERSION`] when written.
    pub record_version: u32,
    /// The call.
    pub call_id: CallId,
    /// W3C trace id.
    pub trace_id: String,
    /// Who called.
    pub caller: Caller,
    /// The exposed name as called.
    pub tool: String,
    /// The contract it was decided from, none if there was none.
    pub contract: Option<ContractReference>,
    /// Digest of the arguments as they arrived.
    pub arguments_digest: Digest,
    /// Digest of tenant, tool, contract and canonical arguments; none if the arguments never became canonical.
    pub proposal_digest: Option<Digest>,
    /// When the door had it.
    pub received_at: Timestamp,
    /// When bytes were allowed to leave; none if they never were.
    pub dispatched_at: Option<Timestamp>,
    /// When the answer was ready; none while dispatching.
    pub finished_at: Option<Timestamp>,
    /// The time the upstream was given.
    pub deadline_ms: Option<u64>,
    /// What every stage said, in order.
    pub verdicts: Vec<Verdict>,
    /// How it ended.
    pub outcome: Outcome,
    /// The class of the end; none while there is none, or while the upstream waits for input.
    pub class: Option<TaxonomyClass>,
    /// Why, if it was refused.
    pub refusal: Option<Refusal>,
    /// Digest of the upstream's answer, if there was one.
    pub answer_digest: Option<Digest>,
    /// The first call of a conversation that this call goes on with: the upstream had asked for input there, the call was left behind,
    /// or its answer came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<CallId>,
    /// The task the call became, by the id the caller knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The effect that it was, or was answered from, by its handle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<String>,
    /// How often it was sent, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// What its contract says it costs at most, by what it is spent on; none if that is nothing, or if it was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Box<Price>>,
    /// What the policies said and were told; none if the call never came to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRecord>,
    /// The questions that the upstream asked the caller during the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRecord>,
}

/// The client of a record that an upstream's answer has which came after the deadline of its call.
pub const LATE_ANSWER_CLIENT: &str = "servanda late answer";

/// One question of an upstream to a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionRecord {
    /// Its kind; none if the kind is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<QuestionKind>,
    /// Digest of the question as the upstream wrote it.
    pub digest: Digest,
    /// Why the caller was not asked; none if the question was handed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The contract a call was decided from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContractReference {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its digest.
    pub digest: Digest,
    /// The upstream that performs it.
    pub upstream: String,
    /// The tool's own name there.
    pub upstream_tool: String,
    /// What an uncertain dispatch may lead to.
    pub effect_class: EffectClass,
}

/// What one stage said about one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The stage.
    pub gate: GateName,
    /// What it said.
    pub decision: Decision,
    /// How long it took.
    pub took_us: u64,
}

/// What a stage said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call went on.
    Passed,
    /// The call ended here.
    Refused,
    /// The stage was not needed: the answer was there already.
    Skipped,
}

/// How a call ended, or that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A gate said no; nothing was sent.
    Refused,
    /// Bytes may have left; nobody has said yet how it ended.
    Dispatching,
    /// The upstream answered and the answer keeps the contract.
    Completed,
    /// The upstream answered that the tool failed.
    ToolError,
    /// It provably never reached the upstream.
    NotExecuted,
    /// The upstream answered, the answer breaks the contract and was kept back.
    Quarantined,
    /// It was sent and nobody knows.
    Unknown,
    /// The upstream answered that it needs input first. If it gets it, another call goes on from here.
    InputRequired,
    /// The upstream made a task of it; nobody has asked yet how the task ended.
    TaskCreated,
    /// It was answered with what the same operation had been answered before; nothing was sent.
    Replayed,
}

impl CallRecord {
    /// The record of a call nothing has been decided about yet; it counts as refused until something says otherwise.
    pub fn new(proposal: &Proposal) -> Self {
        Self {
            record_version: RECORD_VERSION,
            call_id: proposal.call_id.clone(),
            trace_id: proposal.trace_id.clone(),
            caller: proposal.caller.clone(),
            tool: proposal.tool.clone(),
            contract: None,
            arguments_digest: proposal.arguments_digest(),
            proposal_digest: None,
            received_at: proposal.received_at,
            dispatched_at: None,
            finished_at: None,
            deadline_ms: None,
            verdicts: Vec::new(),
            outcome: Outcome::Refused,
            class: None,
            refusal: None,
            answer_digest: None,
            continues: None,
            task_id: None,
            effect_id: None,
            attempts: None,
            price: None,
            policy: None,
            questions: Vec::new(),
        }
    }

    /// The stage at which it was refused or failed.
    pub fn refused_at(&self) -> Option<GateName> {
        self.refusal.as_ref().map(|refusal| refusal.gate)
    }

    /// How it ended, in the words that people read. A read that was sent and not answered is stored as a tool error, because nothing
    /// was changed; but its tool reported none.
    pub fn ended(&self) -> &'static str {
        match (self.outcome, self.refused_at(), self.class) {
            (Outcome::ToolError, Some(GateName::Perform), Some(TaxonomyClass::Timeout)) => "timed out",
            (Outcome::ToolError, Some(GateName::Perform), Some(TaxonomyClass::DependencyUnavailable)) => "no answer",
            (outcome, ..) => outcome.name(),
        }
    }

    /// Whether it is of an answer that came after the deadline of its call.
    pub fn is_late_answer(&self) -> bool {
        self.continues.is_some() && self.caller.client.as_deref() == Some(LATE_ANSWER_CLIENT)
    }
}

impl Outcome {
    /// Every one there is.
    pub const ALL: [Self; 10] = [
        Self::Refused,
        Self::Dispatching,
        Self::Completed,
        Self::ToolError,
        Self::NotExecuted,
        Self::Quarantined,
        Self::Unknown,
        Self::InputRequired,
        Self::TaskCreated,
        Self::Replayed,
    ];

    /// The outcome of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }

    /// The text form used in storage and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Dispatching => "dispatching",
            Self::Completed => "completed",
            Self::ToolError => "tool_error",
            Self::NotExecuted => "not_executed",
            Self::Quarantined => "quarantined",
            Self::Unknown => "unknown",
            Self::InputRequired => "input_required",
            Self::TaskCreated => "task_created",
            Self::Replayed => "replayed",
        }
    }
}
