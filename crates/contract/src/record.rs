//! The record that every call leaves, refused calls included: enough to explain the decision gate by gate without the payload.
//!
//! Arguments and results are deliberately absent: a record holds their digests. The ledger keeps an answer that breaks its
//! contract separately, in quarantine.

mod policy;
mod stage;
mod summary;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use policy::{PolicyRecord, ShadowDecision, ShadowRecord, Texts};
pub use stage::{CallStage, StageStanding};
pub use summary::{CallSummary, ID_CHARS_MIN};

use crate::{
    CallId, Caller, Digest, GateName, Proposal, Refusal, TaxonomyClass, Timestamp,
    cost::Price,
    tool::{EffectClass, QuestionKind},
    trace::TraceStanding,
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
    pub caller: Arc<Caller>,
    /// The exposed name as called.
    pub tool: String,
    /// The contract that the decision was based on; none if the tool had none.
    pub contract: Option<Arc<ContractReference>>,
    /// Digest of the arguments as they arrived.
    pub arguments_digest: Digest,
    /// Digest of tenant, tool, contract and canonical arguments; none if the arguments never became canonical.
    pub proposal_digest: Option<Digest>,
    /// When the call reached the door.
    pub received_at: Timestamp,
    /// When the gateway allowed bytes to leave; none if it never did.
    pub dispatched_at: Option<Timestamp>,
    /// When the answer was ready; none while the call is dispatching.
    pub finished_at: Option<Timestamp>,
    /// The time that the gateway gave the upstream.
    pub deadline_ms: Option<u64>,
    /// The verdict of every stage, in order.
    pub verdicts: Vec<Verdict>,
    /// How it ended.
    pub outcome: Outcome,
    /// The class of the end; none before the end, or while the upstream waits for input.
    pub class: Option<TaxonomyClass>,
    /// The refusal, if the call was refused.
    pub refusal: Option<Refusal>,
    /// Digest of the upstream's answer, if there was one.
    pub answer_digest: Option<Digest>,
    /// The first call of the conversation that this call continues: the upstream asked for input there, the client gave up
    /// waiting, or the answer came late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<CallId>,
    /// The id, known to the caller, of the task that the call became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The handle of the effect that this call performed, or that its answer comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect_id: Option<String>,
    /// How often it was sent, if more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// The most that the call costs by its contract, by component; none if it is free, or if it was not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Box<Price>>,
    /// The policies' decision and inputs; none if the call never reached the policy gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyRecord>,
    /// The questions that the upstream asked the caller during the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRecord>,
    /// The ticket of the approval that the call needs or used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket_id: Option<String>,
    /// Whether a grant let it pass gate 10; `ticket_id` names the grant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_grant: bool,
    /// Where the call stands in its trace. Not stored: the ids of its spans come from the call's id.
    #[serde(skip)]
    pub trace: TraceStanding,
}

/// The client name in the record of an upstream's answer that came after its call's deadline.
pub const LATE_ANSWER_CLIENT: &str = "servanda late answer";

/// One question from an upstream to a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionRecord {
    /// Its kind; none if the kind is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<QuestionKind>,
    /// Digest of the question as the upstream wrote it.
    pub digest: Digest,
    /// Why the caller was not asked; none if the question was forwarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// The contract that the decision on a call was based on.
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

/// The verdict of one stage on one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The stage.
    pub gate: GateName,
    /// The decision.
    pub decision: Decision,
    /// How long the stage took.
    pub took_us: u64,
}

/// The decision of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The call went on.
    Passed,
    /// The call ended here.
    Refused,
    /// The stage was not needed, because the answer already existed.
    Skipped,
}

/// How a call ended, or that it has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A gate refused it; nothing was sent.
    Refused,
    /// Bytes may have left; the outcome is not known yet.
    Dispatching,
    /// The upstream answered, and the answer keeps the contract.
    Completed,
    /// The upstream answered that the tool failed.
    ToolError,
    /// It provably never reached the upstream.
    NotExecuted,
    /// The upstream answered, the answer breaks the contract and was withheld.
    Quarantined,
    /// It was sent, and whether it was performed is unknown.
    Unknown,
    /// The upstream needs input first. If the caller gives it, another call continues from here.
    InputRequired,
    /// The upstream made a task of it; how the task ended has not been asked yet.
    TaskCreated,
    /// It got the stored answer of the same operation; nothing was sent.
    Replayed,
    /// It was a dry run: the gates judged it, it was answered with a preview, and it was not made.
    Previewed,
}

impl CallRecord {
    /// The record of a call before any decision. It counts as refused until a later stage changes that.
    pub fn new(proposal: &Proposal) -> Self {
        Self {
            record_version: RECORD_VERSION,
            call_id: proposal.call_id.clone(),
            trace_id: proposal.trace_id.clone(),
            caller: Arc::clone(&proposal.caller),
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
            ticket_id: None,
            by_grant: false,
            trace: TraceStanding::default(),
        }
    }

    /// The stage at which the call was refused or failed.
    pub fn refused_at(&self) -> Option<GateName> {
        self.refusal.as_ref().map(|refusal| refusal.gate)
    }

    /// The ticket of the grant that the call used. A call that was refused after gate 10 used none: a grant is drawn on by the dispatch.
    pub fn grant(&self) -> Option<&str> {
        self.ticket_id.as_deref().filter(|_| self.by_grant && self.dispatched_at.is_some())
    }

    /// How it ended, in words for people. A read that was sent and got no answer is stored as a tool error, because nothing
    /// changed; but the tool did not report one, so the words differ.
    pub fn ended(&self) -> &'static str {
        match (self.outcome, self.refused_at(), self.class) {
            (Outcome::ToolError, Some(GateName::Perform), Some(TaxonomyClass::Timeout)) => "timed out",
            (Outcome::ToolError, Some(GateName::Perform), Some(TaxonomyClass::DependencyUnavailable)) => "no answer",
            (outcome, ..) => outcome.name(),
        }
    }

    /// Whether the record is of an answer that came after its call's deadline.
    pub fn is_late_answer(&self) -> bool {
        self.continues.is_some() && self.caller.client.as_deref() == Some(LATE_ANSWER_CLIENT)
    }
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 11] = [
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
        Self::Previewed,
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
            Self::Previewed => "previewed",
        }
    }
}
