//! The names of attributes, in one file because the conventions still change: OpenTelemetry's for MCP (semantic-conventions-genai at
//! 4172e394, in development), the thirteen of the specification, and our own where there is no convention.

pub(super) const MCP_METHOD: &str = "mcp.method.name";
pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const TOOL: &str = "gen_ai.tool.name";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const SERVICE_NAME: &str = "service.name";
pub(super) const SERVICE_VERSION: &str = "service.version";
pub(super) const SERVICE_INSTANCE: &str = "service.instance.id";

// The thirteen of the specification; `gen_ai.operation.name` above is the first.
pub(super) const CONTRACT_NAME: &str = "tool.name";
pub(super) const CONTRACT_VERSION: &str = "tool.version";
pub(super) const TOOL_CALL_ID: &str = "tool.call_id";
pub(super) const SIDE_EFFECT_CLASS: &str = "tool.side_effect_class";
pub(super) const VALIDATION_STATUS: &str = "tool.validation.status";
pub(super) const ERROR_CODE: &str = "tool.error_code";
pub(super) const RETRYABLE: &str = "tool.retryable";
pub(super) const REPAIRABLE: &str = "tool.repairable";
pub(super) const KEY_HASH: &str = "tool.idempotency_key_hash";
pub(super) const TOOL_APPROVAL_ID: &str = "tool.approval_id";
pub(super) const TENANT: &str = "tenant.id";
pub(super) const REPLAYABLE: &str = "trace.replayable";

// Ours: decisions and approvals have no convention yet.
pub(super) const CALL_ID: &str = "servanda.call.id";
pub(super) const CONTINUES: &str = "servanda.call.continues";
pub(super) const OUTCOME: &str = "servanda.outcome";
pub(super) const DECISION_OUTCOME: &str = "servanda.decision.outcome";
pub(super) const DECISION_GATE: &str = "servanda.decision.gate";
pub(super) const APPROVAL_ID: &str = "servanda.approval.id";
pub(super) const EFFECT_ID: &str = "servanda.effect.id";
pub(super) const UPSTREAM: &str = "servanda.upstream";
pub(super) const ATTEMPTS: &str = "servanda.attempts";
pub(super) const GATE: &str = "servanda.gate";
pub(super) const GATE_DECISION: &str = "servanda.gate.decision";

/// The value of [`MCP_METHOD`] for calls.
pub(super) const TOOLS_CALL: &str = "tools/call";
/// The value of [`OPERATION`] for calls.
pub(super) const EXECUTE_TOOL: &str = "execute_tool";
/// The value of [`ERROR_TYPE`] for an answer with `isError`.
pub(super) const TOOL_ERROR: &str = "tool_error";
