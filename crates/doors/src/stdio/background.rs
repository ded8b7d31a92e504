//! What a stdio connection does besides reading: running requests, deferred answers, and subscriptions being granted.

use std::sync::Arc;

use servanda_engine::Gateway;
use servanda_mcp::{Id, envelope};
use tokio_util::sync::CancellationToken;

use super::output::StdioDoorOutput;
use crate::{
    dispatch::DeferredResult,
    fault::ProtocolFault,
    in_flight::ClientRequestEntry,
    listen::{ListenRequest, ListenSubscription},
    running_request::{RunningRequest, RunningRequestEvent},
};

/// The outcome, if the connection has to know it.
#[derive(Debug)]
pub(super) enum BackgroundOutcome {
    Nothing,
    /// A subscription was granted, or cancelled before it was.
    Grant(Option<Box<GrantedSubscription>>),
}

/// A subscription that may begin.
#[derive(Debug)]
pub(super) struct GrantedSubscription {
    pub(super) subscription: ListenSubscription,
    pub(super) place: SubscriptionSlot,
}

/// A subscription's place among the unanswered requests.
#[derive(Debug)]
pub(super) struct SubscriptionSlot {
    pub(super) cancel: CancellationToken,
    #[expect(dead_code, reason = "held to be dropped with the subscription")]
    pub(super) entry: ClientRequestEntry,
}

/// Passes a request's messages and its answer on, until it is cancelled or the client stops reading.
pub(super) async fn run_request(
    mut running: Box<RunningRequest>,
    output: StdioDoorOutput,
    give_up: CancellationToken,
) -> BackgroundOutcome {
    loop {
        let event = tokio::select! {
            biased;
            event = running.next() => event,
            () = give_up.cancelled() => {
                let _ = output.answer(Some(running.end_unknown())).await;
                return BackgroundOutcome::Nothing;
            }
        };
        let answer = match event {
            RunningRequestEvent::Message(message) => match output.send(message).await {
                Ok(()) => continue,
                Err(_) => return BackgroundOutcome::Nothing,
            },
            RunningRequestEvent::Answered(answered) => Some(answered.message),
            RunningRequestEvent::Cancelled => None,
        };
        let _ = output.answer(answer).await;
        return BackgroundOutcome::Nothing;
    }
}

/// Waits for a deferred answer.
pub(super) async fn run_deferred(
    deferred: DeferredResult,
    id: Id,
    output: StdioDoorOutput,
    give_up: CancellationToken,
) -> BackgroundOutcome {
    let result = tokio::select! {
        biased;
        result = deferred.work => result,
        () = give_up.cancelled() => Err(ProtocolFault::internal("the gateway is shutting down")),
    };
    let answer = match result {
        Ok(result) => envelope::response(&id, &result),
        Err(fault) => fault.message(Some(&id)),
    };
    let _ = output.answer(Some(answer)).await;
    drop(deferred.slot);
    BackgroundOutcome::Nothing
}

/// Grants a subscription.
pub(super) async fn run_grant<G: Gateway>(
    listen_request: Box<ListenRequest>,
    gateway: Arc<G>,
    place: SubscriptionSlot,
    give_up: CancellationToken,
) -> BackgroundOutcome {
    tokio::select! {
        biased;
        () = place.cancel.cancelled() => BackgroundOutcome::Grant(None),
        () = give_up.cancelled() => BackgroundOutcome::Grant(None),
        subscription = listen_request.grant(&*gateway) => BackgroundOutcome::Grant(Some(Box::new(GrantedSubscription { subscription, place }))),
    }
}
