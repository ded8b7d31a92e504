//! What an agent proposes: a tool by its exposed name and arguments as bytes, nothing of it believed yet.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Caller, Digest, Timestamp, digest::DigestDomain, expectation::Aims, unique};

/// Identifies one call for ever: in answers, in the record, in `servanda explain`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct CallId(String);

/// A proposed call, as a door hands it in.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Minted by Servanda at the door.
    pub call_id: CallId,
    /// Who is calling.
    pub caller: Caller,
    /// The exposed tool name, exactly as the caller wrote it.
    pub tool: String,
    /// The arguments, exactly as they arrived. Empty means the caller sent none.
    pub arguments: Bytes,
    /// When the door had the whole message.
    pub received_at: Timestamp,
    /// W3C trace id, 32 hex digits: the caller's, else ours.
    pub trace_id: String,
    /// What ties repairs of one intent together; attempts are bounded per chain.
    pub chain: String,
    /// How long the caller says it will still wait.
    pub caller_wait_ms: Option<u64>,
    /// What the caller says about which operation it is.
    pub keys: OperationKeys,
    /// What the caller says it is for.
    pub aims: Aims,
}

/// What a client says about which operation a call is, as it said it: by none of it may two calls be taken for one before
/// it was judged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OperationKeys {
    /// The key in `_meta`.
    pub idempotency_key: Option<String>,
    /// The key in the HTTP header.
    pub header_key: Option<String>,
    /// The business operation.
    pub operation_id: Option<String>,
    /// The step of the agent's plan.
    pub step_id: Option<String>,
    /// The workflow an operation belongs to.
    pub workflow_id: Option<String>,
    /// The run of that workflow.
    pub run_id: Option<String>,
}

impl CallId {
    /// A new id; ids made later sort later.
    pub fn new() -> Self {
        Self(format!("call_{}", unique::time_ordered().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for CallId {
    fn default() -> Self {
        Self::new()
    }
}

impl From<String> for CallId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Proposal {
    /// Recognises the same arguments proposed again, well-formed or not.
    pub fn arguments_digest(&self) -> Digest {
        Digest::compute(DigestDomain::Arguments, &[self.tool.as_bytes(), &self.arguments])
    }
}
