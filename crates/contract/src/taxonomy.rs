//! The error taxonomy: the 21 classes of the specification, the response vector of each, and its envelope code.
//!
//! The class is the internal truth. A door may translate it into an HTTP status, but no decision is made from that status.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a call ended, in the specification's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaxonomyClass {
    /// The tool did what its contract says.
    Success,
    /// Some steps of a composite succeeded, others did not.
    PartialSuccess,
    /// The arguments are not JSON in the strict sense.
    SyntacticParseFail,
    /// A field is missing, unknown, or the shape is wrong.
    StructuralViolation,
    /// A value has the wrong type.
    TypeMismatch,
    /// A value is outside its limits.
    OutOfBounds,
    /// The arguments contradict each other or a business rule.
    SemanticInvalidity,
    /// The caller lacks a scope.
    PermissionDenied,
    /// A policy forbids the call.
    PolicyViolation,
    /// The target changed since the proposal was made.
    StaleState,
    /// A person has to approve first.
    ConfirmationMissing,
    /// A budget is used up.
    BudgetExhausted,
    /// Too many calls in the window.
    RateLimited,
    /// The deadline passed before the answer came.
    Timeout,
    /// The same key is running.
    IdempotencyConflict,
    /// The same key was used with other arguments.
    SignatureMismatch,
    /// The upstream cannot be reached, died, or is not there.
    DependencyUnavailable,
    /// The answer could not be turned into an observation.
    ObservationNormalizationFail,
    /// An earlier effect has to be undone.
    CompensationRequired,
    /// Undoing failed.
    CompensationFailed,
    /// Nothing known fits.
    UnknownError,
}

/// The eleven codes of the error envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EnvelopeCode {
    /// The input breaks the schema or a rule.
    InvalidInput,
    /// The caller may not.
    AuthorizationDenied,
    /// No such tool or version.
    ToolNotFound,
    /// The timeout class was exceeded.
    DeadlineExceeded,
    /// Over quota.
    RateLimited,
    /// A dependency failed.
    UpstreamFailure,
    /// The tool broke its contract.
    InternalToolError,
    /// Capacity or budget used up.
    ResourceExhausted,
    /// A precondition does not hold.
    PreconditionFailed,
    /// Something else changed or is changing the same thing.
    Conflict,
    /// A person has to decide.
    ApprovalRequired,
}

/// What the caller's loop can do next: a closed set of words that an agent can act on by itself. Whether a policy owner or an
/// operator has to act follows from the class and is in `docs/refusals`.
///
/// The aliases are words of earlier versions, which stored records still contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Use the result.
    Continue,
    /// Look at which steps are missing.
    InspectPartialResult,
    /// Correct the arguments and propose again.
    RepairArguments,
    /// Reconsider the inputs, or ask the user for the facts.
    ReplanOrAskUser,
    /// Read the present state, then plan again.
    RefreshStateAndReplan,
    /// Wait, then send the same call.
    #[serde(alias = "use_fallback_or_wait")]
    RetryAfterDelay,
    /// Send the same call with the same key: it is done once.
    RetryWithSameKey,
    /// It is under way: fetch the result later, by its handle.
    AskLater,
    /// Choose another tool; this one does not take calls now.
    UseAnotherTool,
    /// Stop, and tell the user: nothing that the caller can do makes this call pass.
    #[serde(
        alias = "stop_repairing",
        alias = "request_access",
        alias = "route_to_compliance_review",
        alias = "await_approval",
        alias = "stop_or_request_budget",
        alias = "fail_closed",
        alias = "inspect_quarantined_output",
        alias = "compensate",
        alias = "escalate_to_operator",
        alias = "classify_before_retry"
    )]
    StopAndTellUser,
}

/// What may be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the specification's response vector is five independent answers")]
pub struct ResponseVector {
    /// A corrected proposal may succeed.
    pub repairable: bool,
    /// The same proposal may succeed later.
    pub retryable: bool,
    /// A person has to approve.
    pub requires_approval: bool,
    /// The call must not proceed by any other way.
    pub fail_closed: bool,
    /// A person should know.
    pub escalate: bool,
    /// What to do.
    pub next_action: NextAction,
}

impl TaxonomyClass {
    /// All 21, in the specification's order.
    pub const ALL: [Self; 21] = [
        Self::Success,
        Self::PartialSuccess,
        Self::SyntacticParseFail,
        Self::StructuralViolation,
        Self::TypeMismatch,
        Self::OutOfBounds,
        Self::SemanticInvalidity,
        Self::PermissionDenied,
        Self::PolicyViolation,
        Self::StaleState,
        Self::ConfirmationMissing,
        Self::BudgetExhausted,
        Self::RateLimited,
        Self::Timeout,
        Self::IdempotencyConflict,
        Self::SignatureMismatch,
        Self::DependencyUnavailable,
        Self::ObservationNormalizationFail,
        Self::CompensationRequired,
        Self::CompensationFailed,
        Self::UnknownError,
    ];

    /// The name as the specification writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::PartialSuccess => "PARTIAL_SUCCESS",
            Self::SyntacticParseFail => "SYNTACTIC_PARSE_FAIL",
            Self::StructuralViolation => "STRUCTURAL_VIOLATION",
            Self::TypeMismatch => "TYPE_MISMATCH",
            Self::OutOfBounds => "OUT_OF_BOUNDS",
            Self::SemanticInvalidity => "SEMANTIC_INVALIDITY",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::PolicyViolation => "POLICY_VIOLATION",
            Self::StaleState => "STALE_STATE",
            Self::ConfirmationMissing => "CONFIRMATION_MISSING",
            Self::BudgetExhausted => "BUDGET_EXHAUSTED",
            Self::RateLimited => "RATE_LIMITED",
            Self::Timeout => "TIMEOUT",
            Self::IdempotencyConflict => "IDEMPOTENCY_CONFLICT",
            Self::SignatureMismatch => "SIGNATURE_MISMATCH",
            Self::DependencyUnavailable => "DEPENDENCY_UNAVAILABLE",
            Self::ObservationNormalizationFail => "OBSERVATION_NORMALIZATION_FAIL",
            Self::CompensationRequired => "COMPENSATION_REQUIRED",
            Self::CompensationFailed => "COMPENSATION_FAILED",
            Self::UnknownError => "UNKNOWN_ERROR",
        }
    }

    /// The class of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// What may be done about it. The specification's "sometimes" and "maybe" become the careful answer here; a gate that knows
    /// better says so in its refusal.
    pub const fn response(self) -> ResponseVector {
        use NextAction as Next;
        //                         repairable retryable approval closed escalate
        match self {
            Self::Success => vector(false, false, false, false, false, Next::Continue),
            Self::PartialSuccess => vector(false, false, false, false, true, Next::InspectPartialResult),
            Self::SyntacticParseFail | Self::StructuralViolation | Self::TypeMismatch | Self::OutOfBounds => {
                vector(true, false, false, false, false, Next::RepairArguments)
            }
            Self::SemanticInvalidity => vector(true, false, false, false, false, Next::ReplanOrAskUser),
            Self::PermissionDenied | Self::PolicyViolation | Self::BudgetExhausted => {
                vector(false, false, false, true, false, Next::StopAndTellUser)
            }
            Self::StaleState => vector(true, false, false, false, false, Next::RefreshStateAndReplan),
            // A refusal that a ticket waits for says that the same call may be made again; without one, waiting does not help.
            Self::ConfirmationMissing => vector(false, false, true, true, false, Next::StopAndTellUser),
            Self::RateLimited | Self::IdempotencyConflict | Self::DependencyUnavailable => {
                vector(false, true, false, false, false, Next::RetryAfterDelay)
            }
            Self::Timeout => vector(false, false, false, false, false, Next::RetryWithSameKey),
            Self::SignatureMismatch => vector(false, false, false, true, true, Next::ReplanOrAskUser),
            Self::ObservationNormalizationFail | Self::CompensationRequired | Self::UnknownError => {
                vector(false, false, false, true, true, Next::StopAndTellUser)
            }
            Self::CompensationFailed => vector(false, false, true, true, true, Next::StopAndTellUser),
        }
    }

    /// The envelope code, none for the two successes.
    pub const fn envelope(self) -> Option<EnvelopeCode> {
        use EnvelopeCode as Code;
        Some(match self {
            Self::Success | Self::PartialSuccess => return None,
            Self::SyntacticParseFail
            | Self::StructuralViolation
            | Self::TypeMismatch
            | Self::OutOfBounds
            | Self::SemanticInvalidity => Code::InvalidInput,
            Self::PermissionDenied | Self::PolicyViolation => Code::AuthorizationDenied,
            Self::StaleState => Code::PreconditionFailed,
            Self::ConfirmationMissing => Code::ApprovalRequired,
            Self::BudgetExhausted => Code::ResourceExhausted,
            Self::RateLimited => Code::RateLimited,
            Self::Timeout => Code::DeadlineExceeded,
            Self::IdempotencyConflict | Self::SignatureMismatch => Code::Conflict,
            Self::DependencyUnavailable => Code::UpstreamFailure,
            Self::ObservationNormalizationFail
            | Self::CompensationRequired
            | Self::CompensationFailed
            | Self::UnknownError => Code::InternalToolError,
        })
    }

    /// The integer `status.code` of an observation: the HTTP status a person would expect for it.
    pub const fn status_code(self) -> u16 {
        match self {
            Self::Success => 200,
            Self::PartialSuccess => 207,
            Self::SyntacticParseFail => 400,
            Self::StructuralViolation | Self::TypeMismatch | Self::OutOfBounds | Self::SemanticInvalidity => 422,
            Self::PermissionDenied | Self::PolicyViolation => 403,
            Self::StaleState | Self::IdempotencyConflict | Self::SignatureMismatch => 409,
            Self::ConfirmationMissing => 428,
            Self::BudgetExhausted => 402,
            Self::RateLimited => 429,
            Self::Timeout => 504,
            Self::DependencyUnavailable => 503,
            Self::ObservationNormalizationFail => 502,
            Self::CompensationRequired | Self::CompensationFailed | Self::UnknownError => 500,
        }
    }
}

#[expect(clippy::fn_params_excessive_bools, reason = "one row of the table above, read as columns")]
const fn vector(
    repairable: bool,
    retryable: bool,
    requires_approval: bool,
    fail_closed: bool,
    escalate: bool,
    next_action: NextAction,
) -> ResponseVector {
    ResponseVector { repairable, retryable, requires_approval, fail_closed, escalate, next_action }
}
