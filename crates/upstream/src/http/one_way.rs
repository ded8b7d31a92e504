//! Messages that have no answer: cancellations, answers to the server's questions, a client's notifications. Each is a POST of its
//! own; a few go at a time, the others wait in line.

use std::{sync::Arc, time::Duration};

use hyper::Method;
use tokio::sync::{Semaphore, mpsc};

use super::address::Address;
use crate::{conversation::departure::Departure, http_client::RequestBody, request::parcel::Parcel, shared::Setting};

/// How many may be under way, and how many may wait.
const ASIDES_MAX: usize = 16;
/// How long one may take.
const ASIDE_MS_MAX: u64 = 30_000;

/// Starts the task that sends them. It ends when the connection goes or when the last sender is dropped.
pub(super) fn speak(setting: &Arc<Setting>, address: &Arc<Address>, departure: &Departure) -> mpsc::Sender<Parcel> {
    let (outbox, parcels) = mpsc::channel(ASIDES_MAX);
    let speaking = say_all(parcels, Arc::clone(setting), Arc::clone(address), departure.clone());
    let departure = departure.clone();
    setting.tasks.spawn(async move {
        tokio::select! {
            _ = departure.told() => {}
            () = speaking => {}
        }
    });
    outbox
}

async fn say_all(
    mut parcels: mpsc::Receiver<Parcel>,
    setting: Arc<Setting>,
    address: Arc<Address>,
    departure: Departure,
) {
    let permits = Arc::new(Semaphore::new(ASIDES_MAX));
    while let Some(parcel) = parcels.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Some(body) = parcel.take() else { continue };
        let address = Arc::clone(&address);
        let sending = async move { drop(address.send(Method::POST, None, RequestBody::bytes(body)).await) };
        let departure = departure.clone();
        setting.tasks.spawn(async move {
            tokio::select! {
                _ = departure.told() => {}
                _ = tokio::time::timeout(Duration::from_millis(ASIDE_MS_MAX), sending) => {}
            }
            drop(permit);
        });
    }
}
