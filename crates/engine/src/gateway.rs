//! What a door may ask of the engine. Doors are written against this, so that every door gives the same answers.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_catalog::Listing;
use servanda_contract::{Caller, Refusal};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// The engine as doors see it.
pub trait Gateway: Send + Sync + 'static {
    /// The tools on offer now, in their one order.
    fn listing(&self) -> Arc<Listing>;

    /// Bumped whenever [`Gateway::listing`] returns another list.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Takes a call through to its answer. A door runs it in a task of its own and never drops it: a dispatched call is read
    /// to its end and recorded, whether or not the caller is still there. A caller that goes away cancels the token.
    fn call(&self, request: CallRequest) -> impl Future<Output = CallAnswer> + Send;
}

/// A call as a door hands it in.
#[derive(Debug)]
pub struct CallRequest {
    /// Who calls.
    pub caller: Caller,
    /// The exposed name, as written.
    pub tool: String,
    /// The arguments, exactly as they arrived; empty if there were none.
    pub arguments: Bytes,
    /// How long the caller will still wait, if it said so.
    pub caller_wait_ms: Option<u64>,
    /// W3C `traceparent`, if the caller sent one.
    pub trace_parent: Option<String>,
    /// What ties repairs of one intent together, if the caller said so.
    pub chain: Option<String>,
    /// Where progress goes: the raw `params` of the upstream's notifications without a token. A full channel loses them.
    pub progress: Option<mpsc::Sender<Box<RawValue>>>,
    /// Cancelled when the caller gives up.
    pub cancel: CancellationToken,
}

/// The answer every call gets.
#[derive(Debug)]
pub enum CallAnswer {
    /// A tool result: of the upstream, or a refusal the model can read.
    Result(ToolResult),
    /// No such tool: the protocol has an error of its own for that.
    UnknownTool(Box<Refusal>),
}

/// The members of an MCP tool result: content, structured content, error flag, `_meta` with the observation.
#[derive(Debug)]
pub struct ToolResult {
    /// A JSON object without `resultType`, which a door of the modern era adds.
    pub json: String,
    /// Whether it reports a failure.
    pub is_error: bool,
}
