//! Why a call was refused, for the agent that proposed it: a stable code, the gate, every field error of that gate, and what to
//! do next. A refusal never carries an offending value, only types, names and limits.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallId, Digest, TaxonomyClass,
    digest::DigestDomain,
    taxonomy::{EnvelopeCode, NextAction, ResponseVector},
};

/// Where a call can be refused. The numbers are those of the design's eleven gates; the other stages are around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateName {
    /// Before gate 1: the exposed name means a tool with an admitted contract.
    Resolve,
    /// Gate 1.
    Parse,
    /// Gate 2.
    Structure,
    /// Gate 3.
    Types,
    /// Gate 4.
    Bounds,
    /// Gate 5.
    Semantics,
    /// Gate 6.
    Behaviour,
    /// Gate 7: what the credential covers.
    Scope,
    /// Gate 8.
    Policy,
    /// Gate 9.
    State,
    /// Gate 10.
    Confirmation,
    /// Gate 11.
    Budget,
    /// The durable record without which no byte leaves.
    Fence,
    /// The upstream.
    Perform,
    /// The check of what came back.
    Observe,
}

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldError {
    /// Dotted name for people, `arguments` for the whole.
    pub field: String,
    /// JSON Pointer into the arguments; empty for the whole.
    pub pointer: String,
    /// What the contract wants there.
    pub expected: String,
    /// What was there: a type or a measure, never the value.
    pub actual: String,
    /// Both of the above as a sentence.
    pub message: String,
    /// The name that was probably meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

/// How far a chain of repairs has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RepairProgress {
    /// Refused attempts of this chain, this one included.
    pub attempt: u32,
    /// How many there may be.
    pub attempts_max: u32,
    /// Present when repairing should stop, with the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<RepairStop>,
}

/// Why a repair loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairStop {
    /// These very arguments were refused before.
    SameArguments,
    /// Other arguments, but the same errors again and again.
    SameErrors,
    /// The attempts are used up.
    AttemptsExhausted,
}

/// What is known about the outside world after the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectKnowledge {
    /// Nothing was sent to the upstream.
    None,
    /// The upstream said it is done; only its answer was unusable.
    Happened,
    /// It was sent, and whether it was performed is unknown; not safe to send again.
    Unknown,
    /// An earlier call with the same key may have been performed; this call did not find out. Make the same call again with the
    /// same key.
    UnknownBefore,
}

/// A refused call with everything that is known about it, as the record keeps it. An agent gets a part of it
/// ([`Feedback`](crate::Feedback)) unless it asks for all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the specification's feedback object")]
pub struct Refusal {
    /// Always `failed`: the specification's feedback object has it.
    pub validation_status: ValidationStatus,
    /// The taxonomy class.
    pub error_code: TaxonomyClass,
    /// The envelope code.
    pub envelope_code: EnvelopeCode,
    /// Where it was refused.
    pub gate: GateName,
    /// What happened, in one sentence.
    pub message: String,
    /// What the caller should do next, in one sentence.
    pub hint: String,
    /// What the operator can do about it, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_hint: Option<String>,
    /// A corrected proposal may succeed.
    pub repairable: bool,
    /// The same proposal may succeed later.
    pub retryable: bool,
    /// A person has to approve.
    pub requires_approval: bool,
    /// It must not proceed by any other way.
    pub fail_closed: bool,
    /// A person should know.
    pub escalate: bool,
    /// What the caller's loop should do.
    pub next_action: NextAction,
    /// Every error of the failing gate.
    pub field_errors: Vec<FieldError>,
    /// What is known about the outside world.
    pub effect: EffectKnowledge,
    /// Ask `servanda explain` for it.
    pub call_id: CallId,
    /// How far the chain of repairs has come, for refusals that can be repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairProgress>,
    /// How long to wait before the same call may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The effect that the refusal is about: `servanda effects show` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// Every scope the call needs, where more scopes are all that is missing: ask for all of them at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes_needed: Vec<String>,
    /// What is left of the budget or the rate limit, and when more becomes available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Box<BudgetLeft>>,
}

/// What is left of a budget or a rate limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetLeft {
    /// The owner, the unit and the period of the account, in words.
    pub account: String,
    /// `read`, `write`, `external`, `financial` or `critical`; `rate` for a rate limit.
    pub dimension: String,
    /// The currency, for a budget in money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// How much is left: calls, or millionths of the currency's unit.
    pub left: u64,
    /// When more becomes available, as RFC 3339; absent if waiting does not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews_at: Option<String>,
}

/// The one status that a feedback object has in a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValidationStatus {
    /// The call did not pass.
    Failed,
}

impl Refusal {
    /// A refusal with the class's own response vector.
    pub fn new(call_id: CallId, gate: GateName, class: TaxonomyClass, message: String, hint: String) -> Self {
        let ResponseVector { repairable, retryable, requires_approval, fail_closed, escalate, next_action } =
            class.response();
        Self {
            validation_status: ValidationStatus::Failed,
            error_code: class,
            envelope_code: class.envelope().unwrap_or(EnvelopeCode::InternalToolError),
            gate,
            message,
            hint,
            operator_hint: None,
            repairable,
            retryable,
            requires_approval,
            fail_closed,
            escalate,
            next_action,
            field_errors: Vec::new(),
            effect: EffectKnowledge::None,
            call_id,
            repair: None,
            retry_after_ms: None,
            handle: None,
            scopes_needed: Vec::new(),
            budget: None,
        }
    }

    /// Adds the field errors of the failing gate.
    #[must_use]
    pub fn with_field_errors(mut self, field_errors: Vec<FieldError>) -> Self {
        self.field_errors = field_errors;
        self
    }

    /// Says what is known about the outside world.
    #[must_use]
    pub fn with_effect(mut self, effect: EffectKnowledge) -> Self {
        self.effect = effect;
        self
    }

    /// Names the effect that the refusal is about.
    #[must_use]
    pub fn with_handle(mut self, handle: impl Into<String>) -> Self {
        self.handle = Some(handle.into());
        self
    }

    /// Says what the operator can do. The record keeps it; the agent does not get it.
    #[must_use]
    pub fn for_operators(mut self, hint: impl Into<String>) -> Self {
        self.operator_hint = Some(hint.into());
        self
    }

    /// Says what the caller's loop can do, if the class's default is not the best answer.
    #[must_use]
    pub fn with_next_action(mut self, next_action: NextAction) -> Self {
        self.next_action = next_action;
        self
    }

    /// Withdraws the statement that nothing was done: the call may be on record, and then it is performed later, under its key.
    pub fn leave_in_doubt(&mut self) {
        self.effect = EffectKnowledge::Unknown;
        self.message.push_str("; the call may be on record anyway, and is then sent later");
        "make the same call again with the same key; without a key, look at the target first"
            .clone_into(&mut self.hint);
        self.next_action = NextAction::RetryWithSameKey;
    }

    /// Says that an earlier call with the same key may have been performed and that this call did not find out. It claims
    /// nothing about that call, and keeps the caller from trying the same in another way.
    pub fn mark_unknown_before(&mut self) {
        self.effect = EffectKnowledge::UnknownBefore;
        let earlier = "an earlier call with this key may have been done; repeat it with the same key";
        if self.repairable || self.fail_closed {
            self.hint = format!("{earlier}; {}", self.hint);
        } else {
            earlier.clone_into(&mut self.hint);
            self.next_action = NextAction::RetryWithSameKey;
        }
    }

    /// Digest by which the same errors are recognised: gate, class and fields, without the wording.
    pub fn errors_digest(&self) -> Digest {
        let mut parts = vec![format!("{}", self.gate), self.error_code.name().to_owned()];
        parts.extend(self.field_errors.iter().map(|error| format!("{}\0{}", error.pointer, error.expected)));
        Digest::compute(DigestDomain::Errors, &parts.iter().map(String::as_bytes).collect::<Vec<_>>())
    }

    /// Ends the chain of repairs: the caller is no longer invited to correct the proposal.
    pub fn stop_repairing(&mut self, progress: RepairProgress, hint: String) {
        self.repair = Some(progress);
        self.repairable = false;
        self.escalate = true;
        self.next_action = NextAction::StopAndTellUser;
        self.hint = hint;
    }
}

impl GateName {
    /// Every stage, in order.
    pub const ALL: [Self; 15] = [
        Self::Resolve,
        Self::Parse,
        Self::Structure,
        Self::Types,
        Self::Bounds,
        Self::Semantics,
        Self::Behaviour,
        Self::Scope,
        Self::Policy,
        Self::State,
        Self::Confirmation,
        Self::Budget,
        Self::Fence,
        Self::Perform,
        Self::Observe,
    ];

    /// The stage of that name, or the gate of that number.
    pub fn from_name(name: &str) -> Option<Self> {
        let number = name.parse::<u8>().ok();
        Self::ALL.into_iter().find(|gate| gate.to_string() == name || number.is_some() && gate.number() == number)
    }

    /// The gate's number in the design, none for the stages around the gates.
    pub const fn number(self) -> Option<u8> {
        Some(match self {
            Self::Parse => 1,
            Self::Structure => 2,
            Self::Types => 3,
            Self::Bounds => 4,
            Self::Semantics => 5,
            Self::Behaviour => 6,
            Self::Scope => 7,
            Self::Policy => 8,
            Self::State => 9,
            Self::Confirmation => 10,
            Self::Budget => 11,
            Self::Resolve | Self::Fence | Self::Perform | Self::Observe => return None,
        })
    }

    /// The question that the gate answers, for people.
    pub const fn question(self) -> &'static str {
        match self {
            Self::Resolve => "is there an admitted contract of that name?",
            Self::Parse => "are the arguments strict JSON?",
            Self::Structure => "are the right fields there, and no others?",
            Self::Types => "does every value have its type?",
            Self::Bounds => "is every value within its limits?",
            Self::Semantics => "do the values make sense together?",
            Self::Behaviour => "is this the kind of tool, and the kind of change, that was meant?",
            Self::Scope => "does the caller's credential cover this call?",
            Self::Policy => "do the policies permit this call by this caller?",
            Self::State => "is the tool in service, and is the world in the state that the contract requires?",
            Self::Confirmation => "has a person approved, where the contract asks for it?",
            Self::Budget => "is enough left of every budget, and is the call within the rate limits?",
            Self::Fence => "is the call durably on record before a byte leaves?",
            Self::Perform => "did the upstream answer in time?",
            Self::Observe => "does the answer keep the contract?",
        }
    }
}

impl fmt::Display for GateName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Resolve => "resolve",
            Self::Parse => "parse",
            Self::Structure => "structure",
            Self::Types => "types",
            Self::Bounds => "bounds",
            Self::Semantics => "semantics",
            Self::Behaviour => "behaviour",
            Self::Scope => "scope",
            Self::Policy => "policy",
            Self::State => "state",
            Self::Confirmation => "confirmation",
            Self::Budget => "budget",
            Self::Fence => "fence",
            Self::Perform => "perform",
            Self::Observe => "observe",
        })
    }
}
