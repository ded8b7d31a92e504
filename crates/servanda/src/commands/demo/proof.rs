//! Proves that refused calls had no effect: from the company's own count, and from the ledger's records of the refused calls.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use servanda_config::ledger_place::LedgerPlace;
use servanda_contract::{CallRecord, record::Outcome};
use servanda_engine::Engine;
use servanda_ledger::{CallQuery, LedgerReader};

use super::{
    outcome::{self, DemoOutcome, PlayedStep},
    tour,
};
use crate::failure::CommandFailure;

/// The record of a refused call is written a moment after its answer; this is how often and how long the proof waits for it.
const LOOKS_MAX: u32 = 100;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// What really happened.
#[derive(Debug, Serialize)]
pub(super) struct DemoProof {
    /// Calls that a gate refused.
    pub(super) refused: usize,
    /// Refused calls that the ledger records as sent; must be none.
    pub(super) refused_but_sent: usize,
    /// Effects of the calls that passed.
    pub(super) effects_allowed: u64,
    /// Effects as the company counts them.
    pub(super) effects_counted: u64,
    /// The company's counts by kind.
    pub(super) effects_by_kind: Map<String, Value>,
    /// The record of one refused call.
    pub(super) explained: Option<CallRecord>,
}

impl DemoProof {
    /// Reads the company's counts and the ledger.
    pub(super) async fn gather(
        engine: &Engine,
        ledger: &LedgerPlace,
        played: &[PlayedStep],
    ) -> Result<Self, CommandFailure> {
        let counted = outcome::play(engine, &tour::COUNT).await?;
        let DemoOutcome::Passed(Value::Object(mut effects_by_kind)) = counted.ending else {
            return Err(CommandFailure::failed("the company did not count its effects")
                .hint("`servanda demo --json` has the answer"));
        };
        let effects_counted = effects_by_kind.remove("total").and_then(|total| total.as_u64()).unwrap_or(u64::MAX);
        let reader = ledger.read().await?;
        let mut proof = Self {
            refused: 0,
            refused_but_sent: 0,
            effects_allowed: played.iter().map(PlayedStep::effects).sum(),
            effects_counted,
            effects_by_kind,
            explained: None,
        };
        for call in played.iter().filter(|call| call.stopped_at_a_gate()) {
            let record = record(&reader, &call.call_id).await?;
            proof.refused += 1;
            let sent = record.dispatched_at.is_some() || record.outcome != Outcome::Refused;
            proof.refused_but_sent += usize::from(sent);
            if call.refusal().is_some_and(|refusal| refusal.gate == tour::EXPLAINED) {
                proof.explained = Some(record);
            }
        }
        Ok(proof)
    }

    /// The discrepancy, if there is one.
    pub(super) fn surprise(&self) -> Option<String> {
        if self.effects_counted != self.effects_allowed {
            let (counted, allowed) = (self.effects_counted, self.effects_allowed);
            return Some(format!("the company counts {counted} effects, but {allowed} were allowed"));
        }
        (self.refused_but_sent > 0).then(|| format!("the ledger has {} refused calls as sent", self.refused_but_sent))
    }
}

async fn record(reader: &LedgerReader, call_id: &str) -> Result<CallRecord, CommandFailure> {
    let query = CallQuery::Id(call_id.to_owned());
    for _ in 0..LOOKS_MAX {
        if let Some(record) = reader.find(&query, 1).await?.pop() {
            return Ok(record);
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    Err(CommandFailure::failed(format!("`{call_id}` was answered, but left no record")))
}
