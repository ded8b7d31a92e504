//! Plays one step: the call goes through the real engine, and its answer is read as a client would and compared with what the tour expects.

use std::{collections::BTreeSet, time::Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct as _};
use serde_json::Value;
use servanda_approval::ApprovalVerdict;
use servanda_contract::{Caller, GateName, Observation, Refusal, TaxonomyClass, tool::Presence};
use servanda_effects::ticket_store::TicketQuery;
use servanda_engine::{
    Aims, AnswerDetail, CallAnswer, CallRequest, Engine, Gateway as _, OperationKeys, RequestTerms,
    approvals::{Person, PersonDecision},
};
use servanda_mcp::fields::meta;

use super::tour::{DemoExpectation, DemoStep, RUN};
use crate::failure::CommandFailure;

/// The whole tour is one conversation of one agent, because repairs are counted per conversation.
const CONVERSATION: &str = "servanda-demo";

/// A step and its outcome.
#[derive(Debug)]
pub(super) struct PlayedStep {
    pub(super) step: &'static DemoStep,
    pub(super) call_id: String,
    pub(super) took_ms: u128,
    pub(super) ending: DemoOutcome,
}

/// The outcome of a call.
#[derive(Debug)]
pub(super) enum DemoOutcome {
    /// The tool's structured result.
    Passed(Value),
    /// The tool's own error.
    ToolError(String),
    /// A gate refused the call.
    Refused(Box<Refusal>),
}

/// Makes one call of the tour.
pub(super) async fn play(engine: &Engine, step: &'static DemoStep) -> Result<PlayedStep, CommandFailure> {
    if step.is_approved {
        approve(engine).await?;
    }
    let request = CallRequest {
        requester: step.caller.requester()?,
        tool: step.tool.to_owned(),
        arguments: Bytes::from_static(step.arguments.as_bytes()),
        chain: Some(CONVERSATION.to_owned()),
        keys: OperationKeys { run_id: Some(RUN.to_owned()), ..OperationKeys::default() },
        aims: Aims { task: step.task.map(str::to_owned), ..Aims::default() },
        task: None,
        terms: RequestTerms { detail: AnswerDetail::Full, ..RequestTerms::default() },
    };
    let started = Instant::now();
    let answer = engine.call(request).await;
    let took_ms = started.elapsed().as_millis();
    let (call_id, ending) = match answer {
        CallAnswer::UnknownTool(refusal) => (refusal.call_id.to_string(), DemoOutcome::Refused(refusal)),
        CallAnswer::InputRequired(_) | CallAnswer::Task(_) | CallAnswer::Failed(_) => {
            return Err(CommandFailure::failed(format!("`{}` answered with what no tour shows", step.tool)));
        }
        CallAnswer::Result(result) => read(&result.json).map_err(|error| {
            CommandFailure::failed(format!("the answer of `{}` cannot be read: {error}", step.tool))
        })?,
    };
    Ok(PlayedStep { step, call_id, took_ms, ending })
}

/// Approves the ticket that waits, as the person at the demo's terminal.
async fn approve(engine: &Engine) -> Result<(), CommandFailure> {
    let (approvals, authorities) = (engine.approvals(), engine.authorities());
    let failed =
        |error: &dyn std::fmt::Display| CommandFailure::failed(format!("the ticket was not approved: {error}"));
    let waiting = approvals.tickets().list_tickets(TicketQuery::pending(None)).await.map_err(|error| failed(&error))?;
    let ticket = waiting.first().ok_or_else(|| failed(&"no ticket waits"))?;
    let caller = Caller::local();
    let person = Person {
        tenant: caller.tenant,
        principal: caller.principal,
        groups: BTreeSet::new(),
        presence: Presence::Fresh,
        credential: "the tour of servanda demo".to_owned(),
    };
    let decision = PersonDecision {
        ticket: ticket.id.clone(),
        payload: ticket.subject.payload,
        verdict: ApprovalVerdict::Approve,
        reason: None,
        passkey: None,
        break_glass: false,
    };
    approvals.decide(&person, decision, authorities.approvals()).await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Reads a tool result: the observation has the call's id, and a refusal is JSON text.
fn read(json: &str) -> Result<(String, DemoOutcome), serde_json::Error> {
    #[derive(Deserialize)]
    struct DemoToolResult {
        #[serde(default)]
        content: Vec<DemoTextBlock>,
        #[serde(rename = "structuredContent", default)]
        structured: Value,
        #[serde(rename = "isError", default)]
        is_error: bool,
        #[serde(rename = "_meta")]
        meta: serde_json::Map<String, Value>,
    }
    #[derive(Deserialize)]
    struct DemoTextBlock {
        text: Option<String>,
    }
    let answered: DemoToolResult = serde_json::from_str(json)?;
    let observation = answered.meta.get(meta::OBSERVATION).cloned().unwrap_or_default();
    // Parsed from text, because the observation keeps its data raw and cannot be read from a `Value`.
    let observation: Observation = serde_json::from_str(&observation.to_string())?;
    let text = answered.content.into_iter().find_map(|block| block.text).unwrap_or_default();
    let ending = match (answered.is_error, serde_json::from_str(&text)) {
        (false, _) => DemoOutcome::Passed(answered.structured),
        (true, Ok(refusal)) => DemoOutcome::Refused(Box::new(refusal)),
        (true, Err(_)) => DemoOutcome::ToolError(text),
    };
    Ok((observation.tool_identity.call_id.to_string(), ending))
}

impl PlayedStep {
    /// The refusal, if it was refused.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match &self.ending {
            DemoOutcome::Refused(refusal) => Some(refusal),
            DemoOutcome::Passed(_) | DemoOutcome::ToolError(_) => None,
        }
    }

    /// Whether a gate refused it, so that it must not have been sent.
    pub(super) fn stopped_at_a_gate(&self) -> bool {
        self.refusal().is_some_and(|refusal| !matches!(refusal.gate, GateName::Perform | GateName::Observe))
    }

    /// How many changes it was allowed to make.
    pub(super) fn effects(&self) -> u64 {
        match (self.step.expected, &self.ending) {
            (DemoExpectation::Passes { effects }, DemoOutcome::Passed(_)) => effects,
            _ => 0,
        }
    }

    /// The difference from the expected end, if there is one.
    pub(super) fn surprise(&self) -> Option<String> {
        let as_expected = match (self.step.expected, &self.ending) {
            (DemoExpectation::Passes { .. }, DemoOutcome::Passed(_)) => true,
            (DemoExpectation::Refused { gate, class }, DemoOutcome::Refused(refusal)) => {
                (refusal.gate, refusal.error_code) == (gate, class) && !is_told_to_stop(refusal)
            }
            (DemoExpectation::ToldToStop { gate }, DemoOutcome::Refused(refusal)) => {
                refusal.gate == gate && is_told_to_stop(refusal)
            }
            _ => false,
        };
        let Self { step, call_id, .. } = self;
        (!as_expected)
            .then(|| format!("`{}` should have {}, but {} ({call_id})", step.tool, step.expected, self.ended()))
    }

    fn ended(&self) -> String {
        match &self.ending {
            DemoOutcome::Passed(_) => "passed".to_owned(),
            DemoOutcome::ToolError(text) => format!("the tool answered: {text}"),
            DemoOutcome::Refused(refusal) => {
                format!("was stopped at {} as {}: {}", refusal.gate, refusal.error_code.name(), refusal.message)
            }
        }
    }

    fn outcome(&self) -> &'static str {
        match &self.ending {
            DemoOutcome::Passed(_) => "passed",
            DemoOutcome::ToolError(_) => "tool_error",
            DemoOutcome::Refused(_) => "refused",
        }
    }
}

/// Whether the refusal tells the caller to stop repairing.
fn is_told_to_stop(refusal: &Refusal) -> bool {
    refusal.repair.as_ref().is_some_and(|repair| repair.stopped.is_some())
}

impl DemoExpectation {
    fn gate(self) -> Option<GateName> {
        match self {
            Self::Passes { .. } => None,
            Self::Refused { gate, .. } | Self::ToldToStop { gate } => Some(gate),
        }
    }
}

impl std::fmt::Display for DemoExpectation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passes { .. } => formatter.write_str("passed"),
            Self::Refused { gate, class } => {
                write!(formatter, "been stopped at {gate} as {}", TaxonomyClass::name(*class))
            }
            Self::ToldToStop { gate } => write!(formatter, "been stopped at {gate} again and told to stop"),
        }
    }
}

impl Serialize for PlayedStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let result = match &self.ending {
            DemoOutcome::Passed(result) => Some(result.clone()),
            DemoOutcome::ToolError(text) => Some(Value::String(text.clone())),
            DemoOutcome::Refused(_) => None,
        };
        let call = serde_json::json!({ "tool": self.step.tool, "arguments": self.step.arguments });
        let mut fields = serializer.serialize_struct("Played", 8)?;
        fields.serialize_field("call", &call)?;
        fields.serialize_field("expected_gate", &self.step.expected.gate())?;
        fields.serialize_field("outcome", self.outcome())?;
        fields.serialize_field("as_expected", &self.surprise().is_none())?;
        fields.serialize_field("call_id", &self.call_id)?;
        fields.serialize_field("took_ms", &self.took_ms)?;
        fields.serialize_field("result", &result)?;
        fields.serialize_field("refusal", &self.refusal())?;
        fields.end()
    }
}
