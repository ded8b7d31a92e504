//! The port through which finished calls are measured.
//!
//! Deliberately not here: what is measured, and where the figures go.

use servanda_contract::CallRecord;

/// Measures calls. It is called on the way of a call, so it never waits, and it decides nothing.
pub trait CallObserver: std::fmt::Debug + Send + Sync {
    /// Takes note of a call that ended; its record may not be written yet.
    fn call_ended(&self, record: &CallRecord);

    /// Whether a call of that trace is recorded even if nothing about it is remarkable; none if calls are not traced. Upstreams are told
    /// the spans of calls that are traced.
    fn samples_trace(&self, _trace_id: &str) -> Option<bool> {
        None
    }
}
