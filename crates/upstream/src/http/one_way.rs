//! Messages that have no answer: cancellations, answers to the server's questions, a client's notifications. Each is a POST of its own; a
//! few are sent at a time, the others wait in line.

use std::{sync::Arc, time::Duration};

use hyper::Method;
use tokio::sync::{Semaphore, mpsc};

use super::address::HttpAddress;
use crate::{
    conversation::loss::ConnectionLoss, http_client::HttpRequestBody, request::parcel::Parcel, shared::SharedContext,
};

/// How many may be sent at once, and how many may wait.
const ONE_WAY_MAX: usize = 16;
/// How long one may take.
const ONE_WAY_MS_MAX: u64 = 30_000;

/// Starts the task that sends them. It ends when the connection is lost or when the last sender is dropped.
pub(super) fn start_sender(
    context: &Arc<SharedContext>,
    address: &Arc<HttpAddress>,
    loss: &ConnectionLoss,
) -> mpsc::Sender<Parcel> {
    let (outbox, parcels) = mpsc::channel(ONE_WAY_MAX);
    let speaking = send_all(parcels, Arc::clone(context), Arc::clone(address), loss.clone());
    let loss = loss.clone();
    context.tasks.spawn(async move {
        tokio::select! {
            _ = loss.reported() => {}
            () = speaking => {}
        }
    });
    outbox
}

async fn send_all(
    mut parcels: mpsc::Receiver<Parcel>,
    context: Arc<SharedContext>,
    address: Arc<HttpAddress>,
    loss: ConnectionLoss,
) {
    let permits = Arc::new(Semaphore::new(ONE_WAY_MAX));
    while let Some(parcel) = parcels.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Some(body) = parcel.take() else { continue };
        let address = Arc::clone(&address);
        let sending = async move { drop(address.send(Method::POST, None, HttpRequestBody::bytes(body)).await) };
        let loss = loss.clone();
        context.tasks.spawn(async move {
            tokio::select! {
                _ = loss.reported() => {}
                _ = tokio::time::timeout(Duration::from_millis(ONE_WAY_MS_MAX), sending) => {}
            }
            drop(permit);
        });
    }
}
