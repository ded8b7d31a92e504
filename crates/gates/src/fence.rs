//! The fence: the durable mark between deciding and doing. A call that may change something is on record before its first
//! byte leaves; without the mark there is no [`Fenced`], and without a [`Fenced`] no upstream moves.

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;
use servanda_contract::{CallId, CallRecord, Refusal, refusal::EffectKnowledge};
use servanda_contract::{GateName, TaxonomyClass, tool::EffectClass};

use crate::Permit;

/// A future a port returns.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A permitted call that is durably on record where it has to be. The only thing an upstream performs.
#[derive(Debug)]
pub struct Fenced {
    permit: Permit,
}

/// Where calls are put on record. Implemented by the ledger.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Puts the record of a call that is about to be dispatched where a crash cannot lose it, then returns.
    fn dispatching(&self, record: CallRecord) -> PortFuture<'_, Result<(), JournalError>>;

    /// Puts the record of a finished call down: durably before returning if `durable`, else soon after.
    /// `quarantine` is an answer that broke its contract and must not be passed on.
    fn finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>>;
}

/// The journal could not keep a record.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the journal could not keep the record: {0}")]
pub struct JournalError(pub String);

/// Fences a permitted call. A call of class R changes nothing and needs no mark before it, nor a `record` to be made for one;
/// every other waits for it.
pub async fn fence(
    permit: Permit,
    record: impl FnOnce() -> CallRecord,
    journal: &dyn Journal,
) -> Result<Fenced, Box<Refusal>> {
    if permit.effect_class().mutates() {
        journal.dispatching(record()).await.map_err(|error| {
            Box::new(
                Refusal::new(
                    permit.call_id().clone(),
                    GateName::Fence,
                    TaxonomyClass::DependencyUnavailable,
                    format!("the call could not be put on record, so it was not sent: {error}"),
                    "try again when the gateway's store is writable; `servanda doctor` looks at it".to_owned(),
                )
                .with_effect(EffectKnowledge::None),
            )
        })?;
    }
    Ok(Fenced { permit })
}

impl Fenced {
    /// The call.
    pub fn call_id(&self) -> &CallId {
        self.permit.call_id()
    }

    /// The upstream's id in the configuration.
    pub fn upstream(&self) -> &str {
        &self.permit.contract().contract().binding.upstream
    }

    /// The tool's own name at the upstream.
    pub fn upstream_tool(&self) -> &str {
        &self.permit.contract().contract().binding.tool
    }

    /// The canonical argument bytes, to be sent as they are.
    pub fn arguments(&self) -> &Bytes {
        self.permit.arguments().bytes()
    }

    /// What may follow an uncertain dispatch.
    pub fn effect_class(&self) -> EffectClass {
        self.permit.effect_class()
    }

    /// The permit, back from the upstream, for the check of the answer.
    pub fn permit(&self) -> &Permit {
        &self.permit
    }
}
