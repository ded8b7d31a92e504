//! Hands finished calls to what measures them.
//!
//! Deliberately not here: the figures and spans themselves.

use servanda_contract::CallRecord;
use servanda_engine::CallObserver;

/// Everything that measures the calls of this gateway.
#[derive(Debug, Default)]
pub(crate) struct CallTelemetry {}

impl CallObserver for CallTelemetry {
    fn call_ended(&self, _record: &CallRecord) {}
}
