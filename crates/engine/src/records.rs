//! Putting finished calls on record, and telling the operator.

use std::time::Duration;

use bytes::Bytes;
use servanda_contract::{CallRecord, TaxonomyClass, record::Outcome};

use crate::core::Core;

/// How long an answer waits for its record.
const RECORD_MS_MAX: u64 = 5_000;

/// Puts a record down and tells the operator. An answer is never held back for its record: the ledger counts and reports
/// what it could not keep.
pub(crate) async fn put_down(core: &Core, record: CallRecord, durable: bool, quarantine: Option<Bytes>) {
    tell_operator(&record);
    let call_id = record.call_id.clone();
    let kept = core.journal.finished(record, quarantine, durable);
    match tokio::time::timeout(Duration::from_millis(RECORD_MS_MAX), kept).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%call_id, %error, "the record of a finished call was not kept"),
        Err(_) => {
            tracing::error!(%call_id, "the ledger is too slow; whether a finished call is on record is not known");
        }
    }
}

/// What a person at the gateway should see: one line a call, louder where somebody may have to look.
fn tell_operator(record: &CallRecord) {
    let CallRecord { call_id, tool, outcome, class, .. } = record;
    let class = class.map_or("-", TaxonomyClass::name);
    match outcome {
        Outcome::Unknown | Outcome::Quarantined | Outcome::Dispatching => {
            tracing::warn!(%call_id, %tool, class, "a call ended {}; see `servanda explain {call_id}`", outcome.name());
        }
        _ => tracing::info!(%call_id, %tool, class, "a call ended {}", outcome.name()),
    }
}
