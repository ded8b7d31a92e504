//! Delivers callbacks: finds the deliveries that are due, makes the attempts in the background, limits how many run at once, and stores
//! the outcome of each. Deliberately not here: what follows an attempt, which `callbacks::after_attempt` decides.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_contract::Timestamp;
use servanda_effects::{JournalError, NoteKind};
use servanda_upstream::WebhookSendError;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    callbacks::{
        CallbackDelivery, CallbackRetryPolicy, CallbackTransport, DeliveryStep, DeliveryTurn, PAGE, after_attempt,
    },
    core::Core,
    outages::BackgroundWork,
    random::random,
};

/// How many attempts to one callback run at once. The limit is per callback, so that a slow receiver does not hold up the others.
const AT_ONCE_MAX: usize = 4;
/// How long to wait before looking again when no delivery is known to be due. This look also finds deliveries that other processes left.
const LOOK_INTERVAL_MS: u64 = 5_000;
/// How long attempts that are under way may still take when the gateway stops.
const END_MS_MAX: u64 = 2_000;

/// The notes that are being delivered, each with the name of its callback.
#[derive(Debug, Default)]
struct InFlightDeliveries(Mutex<BTreeMap<String, String>>);

/// Marks one note as being delivered until this is dropped.
#[derive(Debug)]
struct InFlightDeliveryGuard {
    key: String,
    among: Arc<InFlightDeliveries>,
}

/// Delivers until told to stop.
pub(crate) async fn deliver(
    core: &Arc<Core>,
    transport: Arc<dyn CallbackTransport>,
    retry_policy: CallbackRetryPolicy,
    stop: CancellationToken,
) {
    core.outbox.set_delivers(true);
    let in_hand = Arc::new(InFlightDeliveries::default());
    let mut attempts: JoinSet<()> = JoinSet::new();
    loop {
        let looked = deliver_due(core, &transport, retry_policy, &in_hand, &mut attempts).await;
        core.outages.background_ended(BackgroundWork::DueCallbacks, &looked);
        let next = looked.unwrap_or_default();
        let wait_ms = next.map_or(LOOK_INTERVAL_MS, |at| at.since_ms(core.clock.now()).min(LOOK_INTERVAL_MS));
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            () = core.outbox.wait() => {}
            // An attempt has ended: a place is free, and the same delivery may be due again.
            Some(_) = attempts.join_next() => {}
            () = stop.cancelled() => break,
        }
    }
    // Notes written from now on have no owner: the next process that delivers takes them.
    core.outbox.set_delivers(false);
    let ending = async { while attempts.join_next().await.is_some() {} };
    // An attempt that is cut off counts as not delivered, so the event is delivered again.
    let _ = timeout(Duration::from_millis(END_MS_MAX), ending).await;
}

/// Reads all stored deliveries, page by page, and starts those that are due. Returns when the next one is due, if that is known.
async fn deliver_due(
    core: &Arc<Core>,
    transport: &Arc<dyn CallbackTransport>,
    retry_policy: CallbackRetryPolicy,
    in_hand: &Arc<InFlightDeliveries>,
    attempts: &mut JoinSet<()>,
) -> Result<Option<Timestamp>, JournalError> {
    let mut next: Option<Timestamp> = None;
    let mut after = String::new();
    loop {
        let page = core.notebook.list(NoteKind::Delivery, &after, PAGE, core.clock.now()).await?;
        let Some(last) = page.last() else { return Ok(next) };
        after.clone_from(&last.key);
        for note in &page {
            let Some(delivery) = CallbackDelivery::from_note(note) else { continue };
            match delivery.turn(&core.owner, core.clock.now()) {
                DeliveryTurn::NotOurs => {}
                DeliveryTurn::At(at) => next = Some(next.map_or(at, |next| next.min(at))),
                // If all places are taken, the end of an attempt starts the next look.
                DeliveryTurn::Now => {
                    let Some(held) = in_hand.hold(&note.key, &delivery.callback) else { continue };
                    let (core, transport) = (Arc::clone(core), Arc::clone(transport));
                    attempts.spawn(async move {
                        if let Err(error) = attempt(&core, transport.as_ref(), retry_policy, &held.key).await {
                            tracing::warn!(note = held.key, %error, "the outcome of a callback could not be stored; it is sent again");
                            // The delivery is still due. Without a pause the receiver would get it again and again.
                            tokio::time::sleep(Duration::from_millis(LOOK_INTERVAL_MS)).await;
                        }
                    });
                }
            }
        }
    }
}

/// Makes one attempt, if the delivery is still pending and belongs to this process.
async fn attempt(
    core: &Arc<Core>,
    transport: &dyn CallbackTransport,
    retry_policy: CallbackRetryPolicy,
    key: &str,
) -> Result<(), JournalError> {
    let Some(delivery) = claim_delivery(core, key).await? else { return Ok(()) };
    let snapshot = core.snapshot();
    let attempted = match snapshot.callbacks.find(&delivery.callback) {
        Some(receiver) => {
            let letter = receiver.letter(&delivery.event_id, &delivery.body, core.clock.now());
            transport.post(&receiver.address, letter).await
        }
        None => Err(WebhookSendError("no callback of this name is configured any more".to_owned())),
    };
    let (callback, event) = (delivery.callback.clone(), delivery.event_id.clone());
    match after_attempt(delivery, &attempted, core.clock.now(), random(), retry_policy) {
        DeliveryStep::Done => {
            tracing::info!(%callback, %event, "a callback was delivered");
            core.notebook.erase(NoteKind::Delivery, key).await
        }
        DeliveryStep::Later(later) => {
            let (why, attempts) = (later.last.as_deref().unwrap_or_default(), later.attempts);
            tracing::warn!(%callback, %event, attempts, why, "a callback was not delivered; the gateway tries again");
            core.notebook.write(later.note()).await
        }
        DeliveryStep::GivenUp(given_up) => {
            let (why, attempts) = (given_up.last.as_deref().unwrap_or_default(), given_up.attempts);
            tracing::error!(
                %callback, %event, attempts, why,
                "the gateway gave up on a callback; see `servanda callbacks`, and try it with `servanda callbacks test {callback}`"
            );
            core.notebook.write(given_up.note()).await
        }
    }
}

/// Reads a delivery that this process may make now. A delivery of another process is first written down as this process's own. If two
/// processes do this at the same moment, the one that writes last delivers. In rare cases both deliver; the receiver recognises the
/// second one by its id.
async fn claim_delivery(core: &Core, key: &str) -> Result<Option<CallbackDelivery>, JournalError> {
    let read = async || core.notebook.read(NoteKind::Delivery, key, core.clock.now()).await;
    let now = core.clock.now();
    let due = |delivery: &CallbackDelivery| delivery.turn(&core.owner, now) == DeliveryTurn::Now;
    let found = read().await?.as_ref().and_then(CallbackDelivery::from_note).filter(due);
    let Some(delivery) = found else { return Ok(None) };
    if delivery.owner.as_ref() == Some(&core.owner) {
        return Ok(Some(delivery));
    }
    core.notebook.write(delivery.owned_by(&core.owner).note()).await?;
    let taken = read().await?.as_ref().and_then(CallbackDelivery::from_note);
    Ok(taken.filter(|taken| taken.owner.as_ref() == Some(&core.owner)))
}

impl InFlightDeliveries {
    /// Marks a note as being delivered, unless it is already or its callback has reached its limit.
    fn hold(self: &Arc<Self>, key: &str, callback: &str) -> Option<InFlightDeliveryGuard> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = held.values().filter(|busy| *busy == callback).count();
        if busy >= AT_ONCE_MAX || held.contains_key(key) {
            return None;
        }
        held.insert(key.to_owned(), callback.to_owned());
        Some(InFlightDeliveryGuard { key: key.to_owned(), among: Arc::clone(self) })
    }
}

impl Drop for InFlightDeliveryGuard {
    fn drop(&mut self) {
        self.among.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
