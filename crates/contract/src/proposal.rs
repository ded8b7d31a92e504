//! What an agent proposes: a tool by its exposed name, and arguments as bytes. Nothing in it is validated yet.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::fmt::Simple;

use crate::{Caller, Digest, Timestamp, digest::DigestDomain, expectation::Aims, unique};

/// Identifies one call for ever: in answers, in the record, in `servanda explain`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct CallId(Arc<str>);

/// A proposed call, as a door hands it to the engine.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Created by the door.
    pub call_id: CallId,
    /// Who is calling.
    pub caller: Arc<Caller>,
    /// The exposed tool name, exactly as the caller wrote it.
    pub tool: String,
    /// The arguments, exactly as they arrived. Empty means the caller sent none.
    pub arguments: Bytes,
    /// When the door had read the whole message.
    pub received_at: Timestamp,
    /// W3C trace id, 32 hex digits: the caller's, else ours.
    pub trace_id: String,
    /// Ties the repairs of one intent together; attempts are bounded per chain.
    pub chain: String,
    /// How long the caller says it will still wait.
    pub caller_wait_ms: Option<u64>,
    /// The caller's claims about which operation this is.
    pub keys: OperationKeys,
    /// The caller's claims about what the call is for.
    pub aims: Aims,
}

/// A client's claims about which operation a call is, unchecked. The gateway must judge them before it treats two calls as one
/// operation.
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
    /// The workflow that the operation belongs to.
    pub workflow_id: Option<String>,
    /// The run of the workflow.
    pub run_id: Option<String>,
}

impl CallId {
    /// A new id; later ids sort after earlier ones.
    pub fn new() -> Self {
        const PREFIX: &str = "call_";
        let mut text = [0; PREFIX.len() + Simple::LENGTH];
        let (prefix, id) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        unique::time_ordered().simple().encode_lower(id);
        Self(String::from_utf8_lossy(&text).into())
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
        Self(text.into())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Proposal {
    /// Digest by which the same arguments are recognised when proposed again, well-formed or not.
    pub fn arguments_digest(&self) -> Digest {
        Digest::compute(DigestDomain::Arguments, &[self.tool.as_bytes(), &self.arguments])
    }
}
