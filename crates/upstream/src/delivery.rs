//! The terms of one call and what became of it.

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_gates::Fenced;
use servanda_mcp::{RawObject, fields::meta};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::PerformFailure;

/// Where the raw `params` of a call's progress notifications go, without the `progressToken`, which is ours: whoever passes
/// progress on puts the caller's in. A full channel drops progress.
pub type ProgressSink = tokio::sync::mpsc::Sender<Box<RawValue>>;

/// Hands progress to whoever wants it; what does not fit or is no object is dropped, as progress may be.
pub(crate) fn pass_on(sink: &ProgressSink, params: &RawValue) {
    let Ok(params) = serde_json::from_str::<RawObject<'_>>(params.get()) else { return };
    let params = params.without(&[meta::PROGRESS_TOKEN]).to_json();
    if let Ok(params) = RawValue::from_string(params) {
        let _ = sink.try_send(params);
    }
}

/// On what terms a call is performed.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// When waiting ends, connecting included.
    pub deadline: Instant,
    /// Where progress goes; the upstream is asked for progress only if there is somewhere.
    pub progress: Option<ProgressSink>,
    /// Cancelled when the caller does not want the answer any more.
    pub cancel: CancellationToken,
    /// W3C trace context for the upstream.
    pub trace_parent: Option<String>,
}

/// What became of a fenced call.
#[derive(Debug)]
pub struct Performed {
    /// The call, back.
    pub fenced: Fenced,
    /// Whether a byte of the request left. If not, it was not executed; if so, it may still be provable that it was not
    /// (a session the server had forgotten), so ask [`PerformFailure::provably_not_executed`].
    pub sent: bool,
    /// How long it took, connecting included.
    pub took_us: u64,
    /// The answer, or why there is none.
    pub outcome: Result<Answer, PerformFailure>,
}

/// An upstream's answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The JSON-RPC `result`, exactly the bytes the upstream wrote. It is JSON; nothing else about it is checked.
    pub result: Bytes,
}
