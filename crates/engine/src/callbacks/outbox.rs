//! Creates the notes that are stored with the end of a call, so that receivers are told of it. This is the one place that decides which
//! receivers want to know. It is pure, except that it wakes the delivery task.

use std::sync::atomic::{AtomicBool, Ordering};

use servanda_catalog::Catalog;
use servanda_contract::{CallRecord, Timestamp, record::Outcome, tool::TimeoutClass};
use servanda_effects::{
    Note,
    effect::{Effect, EffectEnding, Notice, OwnerId},
};
use tokio::sync::Notify;

use super::{
    CallbackSubscription,
    delivery::CallbackDelivery,
    event::{self, CallbackEvent},
};

/// Wakes the delivery task, and says whether this process has one.
#[derive(Debug, Default)]
pub(crate) struct CallbackOutbox {
    wake: Notify,
    delivers: AtomicBool,
}

/// What is needed to decide which receivers are told of an end.
#[derive(Debug)]
pub struct CallbackNotices<'a> {
    /// All subscriptions.
    pub subscriptions: Vec<&'a CallbackSubscription>,
    /// The catalog, which says which tools are long-running.
    pub catalog: &'a Catalog,
    /// The process that will deliver; any process if none.
    pub owner: Option<&'a OwnerId>,
    /// The present time.
    pub now: Timestamp,
}

impl CallbackOutbox {
    /// Wakes the delivery task because a note was stored.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until a note is stored.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    /// Whether this process delivers the notes that it stores.
    pub(crate) fn delivers(&self) -> bool {
        self.delivers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_delivers(&self, delivers: bool) {
        self.delivers.store(delivers, Ordering::Relaxed);
    }
}

impl CallbackNotices<'_> {
    /// The notes that are stored with the record of a call that is not an effect. It ended as the record says.
    pub(crate) fn for_record(&self, record: &CallRecord) -> Vec<Note> {
        let Some(ending) = event::ending_of_outcome(record.outcome).filter(|_| !self.subscriptions.is_empty()) else {
            return Vec::new();
        };
        self.notes(&record.tool, self.is_long_record(record), ending, || event::from_record(record, ending, self.now))
    }

    /// The notices that go with a record that settles an effect. The end is the one on the record, unless the store knows that the
    /// outcome is unknown.
    pub(crate) fn for_settling(&self, record: &CallRecord) -> Vec<Notice> {
        if self.subscriptions.is_empty()
            || matches!(record.outcome, Outcome::Refused | Outcome::Replayed | Outcome::Previewed)
        {
            return Vec::new();
        }
        let said = event::ending_of_outcome(record.outcome);
        let is_long = self.is_long_record(record);
        let ends = [EffectEnding::Completed, EffectEnding::Failed, EffectEnding::Unknown].into_iter();
        let told = ends.filter_map(|ends| {
            let ending = if ends == EffectEnding::Unknown { EffectEnding::Unknown } else { said? };
            let notes = self.notes(&record.tool, is_long, ending, || event::from_record(record, ending, self.now));
            Some(notes.into_iter().map(move |note| Notice { ending: ends, note }))
        });
        told.flatten().collect()
    }

    /// The notices that go with an effect that recovery or a person settles, without a call.
    pub fn for_effect(&self, effect: &Effect) -> Vec<Notice> {
        let ends = [EffectEnding::Completed, EffectEnding::Failed, EffectEnding::Unknown].into_iter();
        let told = ends.flat_map(|ending| self.for_ended(effect, ending).into_iter().map(move |note| (ending, note)));
        told.map(|(ending, note)| Notice { ending, note }).collect()
    }

    /// The notes for an effect with this end.
    pub(crate) fn for_ended(&self, effect: &Effect, ending: EffectEnding) -> Vec<Note> {
        let order = &effect.order;
        let is_long = self.is_long(&order.exposed_tool, &effect.key.tool, Some(order.timeout_ms));
        self.notes(&order.exposed_tool, is_long, ending, || event::from_effect(effect, ending, self.now))
    }

    fn notes(
        &self,
        tool: &str,
        is_long: bool,
        ending: EffectEnding,
        event: impl FnOnce() -> CallbackEvent,
    ) -> Vec<Note> {
        // The call may have used an earlier name of the tool while the subscription uses the present one.
        let now = self.catalog.present_name(tool).unwrap_or(tool);
        let wants = |one: &CallbackSubscription| one.wants(tool, is_long, ending) || one.wants(now, is_long, ending);
        let mut wanting = self.subscriptions.iter().filter(|wanting| wants(wanting)).peekable();
        if wanting.peek().is_none() {
            return Vec::new();
        }
        let event = event();
        wanting
            .map(|wanting| CallbackDelivery::new(&wanting.name, &event, self.owner.cloned(), self.now).note())
            .collect()
    }

    fn is_long_record(&self, record: &CallRecord) -> bool {
        let contract = record.contract.as_ref();
        contract.is_some_and(|contract| self.is_long(&record.tool, &contract.name, record.deadline_ms))
    }

    /// Whether the tool is long-running by its contract. If the contract is gone, the call's timeout decides.
    fn is_long(&self, tool: &str, contract: &str, given_ms: Option<u64>) -> bool {
        let entry = self.catalog.entry(tool).map(|entry| entry.contract.contract());
        match entry.filter(|entry| entry.identity.name == contract) {
            Some(entry) => {
                let class = entry.execution.as_ref().map(|execution| execution.timeout_class);
                matches!(class, Some(TimeoutClass::LongRunning | TimeoutClass::Async))
            }
            None => given_ms.is_some_and(|given_ms| given_ms > TimeoutClass::Standard.timeout_ms_max()),
        }
    }
}
