//! Recorded calls for the policy commands: found by id or the latest, with their arguments if those are kept. Records keep no arguments;
//! the effect of a call that changes something keeps them until its outcome is known.

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{
    CallRecord,
    json::{CanonicalBytes, canonicalize},
};
use servanda_effects::effect::{EffectId, EffectStore as _, EffectTarget};
use servanda_ledger::{CallQuery, Ledger, LedgerReader};

use super::PolicyCommandContext;
use crate::{configuration, failure::CommandFailure};

/// Where calls and effects are.
pub(super) struct RecordedCalls {
    reader: LedgerReader,
    effects: std::sync::Arc<Ledger>,
}

impl RecordedCalls {
    pub(super) async fn open(context: &PolicyCommandContext<'_>) -> Result<Self, CommandFailure> {
        let place = configuration::ledger_place(context.loaded)?;
        if place.is_missing() {
            return Err(CommandFailure::failed(format!("no call has been recorded yet in `{place}`"))
                .hint("make one: `servanda call TOOL '{...}'`"));
        }
        Ok(Self { reader: place.read().await?, effects: place.open().await? })
    }

    pub(super) async fn close(&self) {
        self.effects.close().await;
    }

    /// The call with this id, or with an id that begins so.
    pub(super) async fn by_id(&self, id: &str) -> Result<CallRecord, CommandFailure> {
        let id = id.trim();
        let mut found = self.reader.find(&CallQuery::Id(id.to_owned()), 2).await?;
        match (found.pop().filter(|_| !id.is_empty()), found.is_empty()) {
            (Some(record), true) => Ok(record),
            (Some(_), false) => Err(CommandFailure::bad_input(format!("more than one call begins with `{id}`"))
                .hint("give more of the id; `servanda explain` lists the latest")),
            (None, _) => Err(CommandFailure::bad_input(format!("there is no call `{id}`"))
                .hint("`servanda explain` lists the latest")),
        }
    }

    /// The latest calls, newest first.
    pub(super) async fn latest(&self, limit: u32) -> Result<Vec<CallRecord>, CommandFailure> {
        Ok(self.reader.find(&CallQuery::Latest, limit).await?)
    }

    /// The arguments of a call whose effect keeps them: it is running, or its outcome is unknown.
    pub(super) async fn arguments(&self, record: &CallRecord) -> Result<Option<CanonicalBytes>, CommandFailure> {
        let Some(handle) = &record.effect_id else { return Ok(None) };
        let target = EffectTarget::Id(EffectId::from(handle.clone()));
        let effect = self.effects.find(target).await.map_err(|error| CommandFailure::failed(error.reason()))?;
        // A call may refer to the effect of another call, whose arguments differ.
        let own = effect.filter(|effect| effect.call_id == record.call_id);
        Ok(own.and_then(|effect| canonical(&effect.order.arguments)))
    }
}

/// Arguments in the form that policies get.
pub(super) fn canonical(bytes: &Bytes) -> Option<CanonicalBytes> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.is_object().then(|| canonicalize(&value).ok()).flatten()
}
