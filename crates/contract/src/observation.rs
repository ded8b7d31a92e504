//! The observation: what an agent loop may believe about a call. What is sent is exactly the specification's object, no field more; the
//! summary that comes with every answer has what the specification has no place for.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{CallId, GateName, Refusal, TaxonomyClass, Timestamp};

/// The specification's JSON Schema of the observation, with our `$id`.
pub const SCHEMA: &str = include_str!("observation.schema.json");

/// The normalised result of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Observation {
    /// Which tool, which version, which call.
    pub tool_identity: ToolIdentity,
    /// When, how long, which attempt.
    pub execution_metadata: ExecutionMetadata,
    /// How it ended.
    pub status: ObservationStatus,
    /// The result.
    pub result_payload: ResultPayload,
    /// What should be checked afterwards.
    pub verification: Verification,
    /// The ticket of the grant that the call used. Only the summary says it.
    #[serde(skip)]
    pub grant: Option<Box<str>>,
}

/// Which tool, which version, which call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolIdentity {
    /// The contract's name.
    pub name: String,
    /// The contract's version.
    pub version: String,
    /// The call.
    pub call_id: CallId,
}

/// When, how long, which attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecutionMetadata {
    /// When the answer was ready; RFC 3339 as text.
    #[serde(with = "crate::time::rfc3339")]
    pub timestamp: Timestamp,
    /// From arrival at the door to the answer.
    pub latency_ms: u64,
    /// Whether this is a replay of a stored result.
    pub idempotency_hit: bool,
    /// W3C trace id.
    pub trace_id: String,
    /// Counted from one.
    pub attempt_number: u32,
}

/// How it ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "the specification's status object")]
pub struct ObservationStatus {
    /// The HTTP status that a person would expect.
    pub code: u16,
    /// Whether it is a failure.
    pub is_error: bool,
    /// The class.
    pub taxonomy_class: TaxonomyClass,
    /// The same call may succeed later.
    pub retryable: bool,
    /// A corrected call may succeed.
    pub repairable: bool,
    /// A person has to approve.
    pub requires_approval: bool,
    /// It must not proceed by another way.
    pub fail_closed: bool,
}

/// The result of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResultPayload {
    /// The structured result if it is an object; otherwise null, and the content carries it.
    pub data: Option<Box<RawValue>>,
    /// What is wrong, by field.
    pub errors: Vec<PayloadError>,
    /// Messages that are no errors.
    pub warnings: Vec<String>,
}

/// One error of a result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PayloadError {
    /// JSON Pointer, null for the whole.
    pub field: Option<String>,
    /// A sentence.
    pub message: String,
    /// The class's name.
    pub code: String,
}

/// What should be checked afterwards.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verification {
    /// Whether the contract asks for it.
    pub post_action_verification_required: bool,
    /// Where to look.
    pub target_state_reference: Option<String>,
    /// What should be seen there.
    pub expected_state: Option<serde_json::Map<String, serde_json::Value>>,
    /// How long to wait first.
    pub delay_seconds: u64,
}

/// The part of an observation that comes with every answer: what a client uses. The rest is sent on request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ObservationSummary<'a> {
    /// The call: `servanda explain` says the rest.
    pub id: &'a CallId,
    /// How it ended.
    pub class: TaxonomyClass,
    /// The stage that refused it; none if the tool answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<GateName>,
    /// True if the answer is a replay of an earlier one.
    #[serde(skip_serializing_if = "is_false")]
    pub replayed: bool,
    /// The same call may succeed later. Set only if the tool's own error does not say so.
    #[serde(skip_serializing_if = "is_false")]
    pub retryable: bool,
    /// How often it was sent, if more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// What to check afterwards, if the contract asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<&'a str>,
    /// The ticket of the grant that the call used: people allowed it beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<&'a str>,
    /// Messages that are no errors.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub warnings: &'a [String],
}

/// The facts that every observation carries, however the call ended.
#[derive(Debug, Clone)]
pub struct ObservationContext<'a> {
    /// The contract's name, or the name as called where there is no contract.
    pub tool: &'a str,
    /// The contract's version, empty if there is no contract.
    pub version: &'a str,
    /// The call.
    pub call_id: &'a CallId,
    /// When the call reached the door.
    pub received_at: Timestamp,
    /// When the answer was ready.
    pub finished_at: Timestamp,
    /// W3C trace id.
    pub trace_id: &'a str,
    /// Whether the answer is a replay of an earlier one.
    pub idempotency_hit: bool,
    /// How often it was sent, this time included.
    pub attempt_number: u32,
    /// The ticket of the grant that the call used.
    pub grant: Option<&'a str>,
}

impl Observation {
    /// A call that succeeded, or whose tool itself reported an error (`class`).
    pub fn from_result(
        context: &ObservationContext<'_>,
        class: TaxonomyClass,
        data: Option<Box<RawValue>>,
        errors: Vec<PayloadError>,
        verification: Verification,
    ) -> Self {
        let response = class.response();
        Self {
            tool_identity: context.tool_identity(),
            execution_metadata: context.execution_metadata(),
            status: ObservationStatus {
                code: class.status_code(),
                is_error: class.envelope().is_some(),
                taxonomy_class: class,
                retryable: response.retryable,
                repairable: response.repairable,
                requires_approval: response.requires_approval,
                fail_closed: response.fail_closed,
            },
            result_payload: ResultPayload { data, errors, warnings: Vec::new() },
            verification,
            grant: context.grant.map(Into::into),
        }
    }

    /// A refused call. The refusal's own flags win over those of its class.
    pub fn from_refusal(context: &ObservationContext<'_>, refusal: &Refusal, verification: Verification) -> Self {
        let whole =
            PayloadError { field: None, message: refusal.message.clone(), code: refusal.error_code.name().to_owned() };
        let fields = refusal.field_errors.iter().map(|error| PayloadError {
            field: Some(error.pointer.clone()),
            message: error.message.clone(),
            code: refusal.error_code.name().to_owned(),
        });
        Self {
            tool_identity: context.tool_identity(),
            execution_metadata: context.execution_metadata(),
            status: ObservationStatus {
                code: refusal.error_code.status_code(),
                is_error: true,
                taxonomy_class: refusal.error_code,
                retryable: refusal.retryable,
                repairable: refusal.repairable,
                requires_approval: refusal.requires_approval,
                fail_closed: refusal.fail_closed,
            },
            result_payload: ResultPayload {
                data: None,
                errors: std::iter::once(whole).chain(fields).collect(),
                warnings: Vec::new(),
            },
            verification,
            grant: context.grant.map(Into::into),
        }
    }

    /// The part that a client uses; `refused_at` is the stage that refused the call.
    pub fn summary(&self, refused_at: Option<GateName>) -> ObservationSummary<'_> {
        let verification = &self.verification;
        let is_refusal = refused_at.is_some();
        ObservationSummary {
            id: &self.tool_identity.call_id,
            class: self.status.taxonomy_class,
            refused_at,
            replayed: self.execution_metadata.idempotency_hit,
            // For a refusal, the feedback says what to do.
            retryable: self.status.retryable && !is_refusal,
            attempts: Some(self.execution_metadata.attempt_number).filter(|attempts| *attempts > 1),
            verify: (verification.target_state_reference.as_deref())
                .filter(|_| verification.post_action_verification_required && !is_refusal),
            grant: self.grant.as_deref(),
            warnings: &self.result_payload.warnings,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(word: &bool) -> bool {
    !*word
}

impl ObservationContext<'_> {
    fn tool_identity(&self) -> ToolIdentity {
        ToolIdentity { name: self.tool.to_owned(), version: self.version.to_owned(), call_id: self.call_id.clone() }
    }

    fn execution_metadata(&self) -> ExecutionMetadata {
        ExecutionMetadata {
            timestamp: self.finished_at,
            latency_ms: self.finished_at.since_ms(self.received_at),
            idempotency_hit: self.idempotency_hit,
            trace_id: self.trace_id.to_owned(),
            attempt_number: self.attempt_number,
        }
    }
}

impl Verification {
    /// Nothing to check.
    pub const fn none() -> Self {
        Self {
            post_action_verification_required: false,
            target_state_reference: None,
            expected_state: None,
            delay_seconds: 0,
        }
    }
}
