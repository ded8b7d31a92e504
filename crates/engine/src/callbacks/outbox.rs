//! What is written down with the end of a call so that it is told: the one place that decides who wants to know. Pure but for
//! the waking of whoever delivers.

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

/// Tells whoever delivers that there is something to deliver, and whether there is such a one here.
#[derive(Debug, Default)]
pub(crate) struct CallbackOutbox {
    wake: Notify,
    delivers: AtomicBool,
}

/// Who is to be told, by whom, as things stand.
#[derive(Debug)]
pub struct CallbackNotices<'a> {
    /// Everybody who wants to be told something.
    pub subscriptions: Vec<&'a CallbackSubscription>,
    /// Which tools take long.
    pub catalog: &'a Catalog,
    /// The process that will deliver; whoever comes first if none.
    pub owner: Option<&'a OwnerId>,
    /// The present.
    pub now: Timestamp,
}

impl CallbackOutbox {
    /// Something was written down.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until something is.
    pub(crate) async fn wait(&self) {
        self.wake.notified().await;
    }

    /// Whether this process delivers what it writes down.
    pub(crate) fn delivers(&self) -> bool {
        self.delivers.load(Ordering::Relaxed)
    }

    pub(crate) fn set_delivers(&self, delivers: bool) {
        self.delivers.store(delivers, Ordering::Relaxed);
    }
}

impl CallbackNotices<'_> {
    /// What goes with the record of a call that was no effect: it ended as the record says.
    pub(crate) fn for_record(&self, record: &CallRecord) -> Vec<Note> {
        let Some(ending) = event::ending_of_outcome(record.outcome).filter(|_| !self.subscriptions.is_empty()) else {
            return Vec::new();
        };
        self.notes(&record.tool, self.is_long_record(record), ending, || event::from_record(record, ending, self.now))
    }

    /// What goes with the record of a call that settles an effect: as the record says, unless the store knows that nobody
    /// knows.
    pub(crate) fn for_settling(&self, record: &CallRecord) -> Vec<Notice> {
        if self.subscriptions.is_empty() || matches!(record.outcome, Outcome::Refused | Outcome::Replayed) {
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

    /// What goes with an effect that is settled without a call: by recovery, or by a person.
    pub fn for_effect(&self, effect: &Effect) -> Vec<Notice> {
        let ends = [EffectEnding::Completed, EffectEnding::Failed, EffectEnding::Unknown].into_iter();
        let told = ends.flat_map(|ending| self.for_ended(effect, ending).into_iter().map(move |note| (ending, note)));
        told.map(|(ending, note)| Notice { ending, note }).collect()
    }

    /// What is to be told of an effect that ended so.
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
        // Somebody may have called it by a name that it had before, and mean the same tool by its present one.
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

    /// Whether a tool takes long by its contract; where that is gone, by the time that the call was given.
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
