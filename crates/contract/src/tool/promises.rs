//! What must hold around a call: rules over the arguments, preconditions, and the state expected afterwards.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A rule over the arguments that a schema cannot express. The semantics gate evaluates it, at bounded cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticRule {
    /// Names the rule in refusals and records.
    pub id: String,
    /// A CEL expression over `args` that must be true, e.g. `args.end > args.start`.
    pub rule: String,
    /// What to tell the caller when it is not.
    pub message: String,
    /// A CEL expression that must be true for the rule to apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// JSON Pointers of the arguments the rule is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// What must hold before a call. A read-only tool is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Precondition {
    /// Names it in refusals and records.
    pub id: String,
    /// The read-only tool to ask, by contract name.
    pub tool: String,
    /// Its arguments; `{name}` stands for the call's argument of that name.
    pub arguments: Map<String, Value>,
    /// What its answer must satisfy.
    pub expect: PreconditionRule,
}

/// What an answer must satisfy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Expectation")]
pub struct PreconditionRule {
    /// A CEL expression over `args` and `result`.
    pub rule: String,
    /// What to say when it does not hold.
    pub message: String,
}

/// What should be seen after a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostActionVerification {
    /// Where to look, e.g. `invoice/{invoice_id}`.
    pub target_state_reference: String,
    /// What should be seen there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_state: Option<Map<String, Value>>,
    /// How long to wait first.
    #[serde(default)]
    pub delay_seconds: u64,
    /// The read-only tool that looks, by contract name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}
