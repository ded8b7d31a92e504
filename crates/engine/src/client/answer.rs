//! What a client gets as an answer: for a call, a tool result or an error of the protocol; for an inquiry, the members of its result. How a
//! result is written is in `answers`.

use servanda_contract::{Observation, Refusal};
use servanda_mcp::RpcError;

/// The answer every call gets.
#[derive(Debug)]
pub enum CallAnswer {
    /// A tool result: of the upstream, or a refusal the model can read.
    Result(ToolResult),
    /// No such tool: the protocol has an error of its own for that.
    UnknownTool(Box<Refusal>),
    /// Only for modern requesters: the members of an `input_required` result, as a JSON object without `resultType`.
    InputRequired(String),
    /// Only for requesters that take tasks: the members of the era's task result, as a JSON object without `resultType`.
    Task(String),
    /// An error of the protocol, which no tool result can say. What is known about the outside world is in the record.
    Failed(RpcError),
}

/// The members of an MCP tool result: content, structured content, error flag, and in `_meta` what a client uses.
#[derive(Debug)]
pub struct ToolResult {
    /// A JSON object without `resultType`, which a door of the modern era adds.
    pub json: String,
    /// Whether it reports a failure.
    pub is_error: bool,
    /// All scopes that the call needs, if more scopes are all that is missing.
    pub scopes_needed: Vec<String>,
    /// What else is known about the call, for callers that ask for it.
    pub(crate) rest: Option<Box<CallDetail>>,
}

impl ToolResult {
    /// A result without further detail.
    pub fn plain(json: String, is_error: bool) -> Self {
        Self { json, is_error, scopes_needed: Vec::new(), rest: None }
    }
}

/// What is known about a call beyond what its answer says.
#[derive(Debug)]
pub(crate) struct CallDetail {
    pub(crate) observation: Observation,
    /// None for an answer of the tool.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) upstream_error: Option<RpcError>,
}

/// The answer of an inquiry, as a JSON object without `resultType`.
#[derive(Debug)]
pub enum InquiryAnswer {
    /// The result.
    Complete(String),
    /// Only for modern requesters: the members of an `input_required` result.
    InputRequired(String),
}
