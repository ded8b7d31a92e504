//! The preview: what a dry run of a call answers. It says what the call would do, gate by gate, and that nothing was done.
//!
//! Everything in it is computed from the contract, the arguments and the gateway's own state, except [`UpstreamPreview`], which an upstream
//! said. Deliberately not here: how a preview is computed, and how it is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CallId, Feedback, GateName,
    record::{Decision, Verdict},
    tool::{ApprovalPattern, EffectClass, MutationClass, Presence, SideEffectClass, SideEffectOperation},
};

/// The answer of a dry run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallPreview {
    /// Always `preview`: no result of a tool has this shape.
    pub kind: PreviewKind,
    /// The dry run's own id: `servanda explain` shows its record.
    pub call_id: CallId,
    /// The tool, as called.
    pub tool: String,
    /// The contract that judged the call; none if the tool has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<PreviewedContract>,
    /// What would become of the call if it were made now.
    pub verdict: PreviewVerdict,
    /// The same in one sentence.
    pub summary: String,
    /// The verdict of each gate, in their order.
    pub gates: Vec<PreviewedGate>,
    /// Everything that would refuse the call now; the call would get the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Feedback>,
    /// What the call would change; none if a gate before the tenth refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<PredictedEffects>,
    /// The contract's preconditions, as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<PreviewedPrecondition>,
    /// The approval that the call would need; none if it needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PreviewedApproval>,
    /// The most that the call would cost; none if it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// The budgets that the call would draw on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<PreviewedBudget>,
    /// What is known about the operation that the call names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<PreviewedOperation>,
    /// What the upstream's own dry run said; none if the contract names none, or if it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_preview: Option<UpstreamPreview>,
}

/// The word by which a preview is told apart from a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewKind {
    /// A preview.
    Preview,
}

/// What would become of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewVerdict {
    /// It would be sent.
    WouldPass,
    /// It would wait for people; nothing would be sent before.
    WouldWaitForApproval,
    /// It would be refused.
    WouldBeRefused,
    /// It would get the stored answer of the same operation; nothing would be sent.
    WouldBeReplayed,
}

/// Name and version of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewedContract {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What a gate would decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewedGate {
    /// The gate.
    pub gate: GateName,
    /// Its decision.
    pub decision: PreviewedDecision,
}

/// A gate's decision about a call that is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewedDecision {
    /// The call would go on.
    Pass,
    /// The call would wait here for people.
    Wait,
    /// The call would end here.
    Refuse,
    /// An earlier gate refuses the call.
    NotReached,
    /// The gate's store could not be asked.
    Unknown,
}

/// What a call would change, by its contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictedEffects {
    /// How grave this call is.
    pub side_effect_class: SideEffectClass,
    /// What Servanda may do if its outcome becomes unknown.
    pub effect_class: EffectClass,
    /// Whether it can be undone; none if the contract does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_class: Option<MutationClass>,
    /// Every change that the contract declares, with the call's arguments filled in.
    pub changes: Vec<PredictedChange>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The tool that undoes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compensation_tool: Option<String>,
    /// What happens, in the contract's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// The state that the contract expects afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_after: Option<String>,
}

/// One change that a call would make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictedChange {
    /// What is changed.
    pub resource: String,
    /// How.
    pub operation: SideEffectOperation,
    /// How far it reaches.
    pub scope: String,
}

/// A precondition as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewedPrecondition {
    /// Its id in the contract.
    pub id: String,
    /// The read-only tool that was asked.
    pub tool: String,
    /// Whether it holds.
    pub standing: PreconditionStanding,
    /// Why it does not hold, or why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Whether a precondition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreconditionStanding {
    /// It holds.
    Holds,
    /// It does not hold: the call would be refused.
    DoesNotHold,
    /// It could not be checked: the call would be refused.
    NotKnown,
}

/// The approval that a call would need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewedApproval {
    /// Who decides, in words.
    pub by: String,
    /// Why, in words.
    pub because: String,
    /// The pattern.
    pub pattern: ApprovalPattern,
    /// How many different people have to approve.
    pub quorum: u8,
    /// How sure the gateway must be that a person decides.
    pub presence: Presence,
    /// How far the approval of this very call has come.
    pub standing: ApprovalStanding,
    /// The latest ticket of this very call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<String>,
}

/// How far the approval of a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStanding {
    /// The call would open a ticket.
    NotAsked,
    /// A ticket is open; the call would join it.
    Pending,
    /// People approved it; the call would use the approval up.
    Approved,
    /// A person denied it, and the denial still holds.
    Denied,
    /// The store of tickets could not be asked.
    Unknown,
}

/// A budget that a call would draw on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewedBudget {
    /// The account, in words.
    pub account: String,
    /// What the call would draw.
    pub draws: String,
    /// What is left now.
    pub left: String,
    /// Whether that is enough.
    pub has_room: bool,
}

/// What is known about the operation that a call names by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreviewedOperation {
    /// The call names no operation, so each repetition would be another operation.
    NoKey,
    /// The key is new, or its operation never ran.
    New,
    /// The operation is done; its answer would be replayed.
    Done,
    /// The operation is under way.
    UnderWay,
    /// The operation was sent, and its outcome is unknown.
    OutcomeUnknown,
    /// The key was used for other arguments.
    Conflict,
    /// The key was used, and its answer is no longer stored.
    Expired,
    /// The store could not be asked.
    Unknown,
}

/// What an upstream's own dry run said. It is data of the upstream, and the gateway did not check it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamPreview {
    /// Its structured answer, or else its content.
    Said(Value),
    /// Why it said nothing that can be used.
    NotAvailable(String),
}

impl PreviewVerdict {
    /// Whether the call would be sent now.
    pub const fn passes(self) -> bool {
        matches!(self, Self::WouldPass)
    }
}

impl PreviewedGate {
    /// Gates 1 to 11 in their order, by the verdicts of a call that was judged without being made. A gate without a verdict was not
    /// reached. The last verdict of a gate counts.
    pub fn from_verdicts(verdicts: &[Verdict]) -> Vec<Self> {
        const GATES: [GateName; 11] = [
            GateName::Parse,
            GateName::Structure,
            GateName::Types,
            GateName::Bounds,
            GateName::Semantics,
            GateName::Behaviour,
            GateName::Scope,
            GateName::Policy,
            GateName::State,
            GateName::Confirmation,
            GateName::Budget,
        ];
        let decision = |gate: GateName| match verdicts.iter().rfind(|verdict| verdict.gate == gate) {
            None => PreviewedDecision::NotReached,
            Some(verdict) if verdict.decision == Decision::Refused => PreviewedDecision::Refuse,
            Some(_) => PreviewedDecision::Pass,
        };
        GATES.into_iter().map(|gate| Self { gate, decision: decision(gate) }).collect()
    }
}
