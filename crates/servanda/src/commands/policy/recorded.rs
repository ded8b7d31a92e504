//! Recorded calls for those who ask about policies: found by id or the latest, and the arguments of those that keep them. Records
//! keep none; the effect of a call that changes something does until its end is known.

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{
    CallRecord,
    json::{CanonicalBytes, canonicalize},
};
use servanda_effects::effect::{EffectId, EffectStore as _, EffectTarget};
use servanda_ledger::{CallQuery, Ledger, Reader};

use super::Desk;
use crate::failure::Failure;

/// Where calls and effects are.
pub(super) struct Books {
    reader: Reader,
    effects: std::sync::Arc<Ledger>,
}

impl Books {
    pub(super) async fn open(desk: &Desk<'_>) -> Result<Self, Failure> {
        let place = desk.loaded.ledger_place()?;
        if place.is_missing() {
            return Err(Failure::failed(format!("no call has been recorded yet in `{place}`"))
                .hint("make one: `servanda call TOOL '{...}'`"));
        }
        Ok(Self { reader: place.read().await?, effects: place.open().await? })
    }

    pub(super) async fn close(&self) {
        self.effects.close().await;
    }

    /// The one call that an id, or the beginning of one, means.
    pub(super) async fn one(&self, id: &str) -> Result<CallRecord, Failure> {
        let id = id.trim();
        let mut found = self.reader.find(&CallQuery::Id(id.to_owned()), 2).await?;
        match (found.pop().filter(|_| !id.is_empty()), found.is_empty()) {
            (Some(record), true) => Ok(record),
            (Some(_), false) => Err(Failure::bad_input(format!("more than one call begins with `{id}`"))
                .hint("give more of the id; `servanda explain` lists the latest")),
            (None, _) => {
                Err(Failure::bad_input(format!("there is no call `{id}`")).hint("`servanda explain` lists the latest"))
            }
        }
    }

    /// The latest calls, newest first.
    pub(super) async fn latest(&self, limit: u32) -> Result<Vec<CallRecord>, Failure> {
        Ok(self.reader.find(&CallQuery::Latest, limit).await?)
    }

    /// The arguments of a call whose effect keeps them: one that is under way, or whose end nobody knows.
    pub(super) async fn arguments(&self, record: &CallRecord) -> Result<Option<CanonicalBytes>, Failure> {
        let Some(handle) = &record.effect_id else { return Ok(None) };
        let target = EffectTarget::Id(EffectId::from(handle.clone()));
        let effect = self.effects.find(target).await.map_err(|error| Failure::failed(error.reason()))?;
        // A call may be about the effect of another one, whose arguments are not its own.
        let own = effect.filter(|effect| effect.call_id == record.call_id);
        Ok(own.and_then(|effect| canonical(&effect.order.arguments)))
    }
}

/// Arguments as policies are given them.
pub(super) fn canonical(bytes: &Bytes) -> Option<CanonicalBytes> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.is_object().then(|| canonicalize(&value).ok()).flatten()
}
