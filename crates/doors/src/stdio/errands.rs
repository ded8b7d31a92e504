//! What a conversation does beside listening: requests under way, answers that take a moment, subscriptions being granted.

use std::sync::Arc;

use servanda_engine::Gateway;
use servanda_mcp::{Id, envelope};
use tokio_util::sync::CancellationToken;

use super::outlet::Outlet;
use crate::{
    dispatch::Soon,
    fault::Fault,
    in_flight::Entry,
    listen::{Subscription, Wanted},
    running::{Event, Running},
};

/// What came of it, where the conversation has to know.
#[derive(Debug)]
pub(super) enum Done {
    Nothing,
    /// A subscription was granted, or cancelled before it could be.
    Grant(Option<Box<Granted>>),
}

/// A subscription that may begin.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) subscription: Subscription,
    pub(super) place: Place,
}

/// A subscription's place among the unanswered requests.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) cancel: CancellationToken,
    #[expect(dead_code, reason = "held to be dropped with the subscription")]
    pub(super) entry: Entry,
}

/// Passes on what a request has to say, for as long as it is wanted and heard.
pub(super) async fn relay(mut running: Box<Running>, outlet: Outlet, give_up: CancellationToken) -> Done {
    loop {
        let event = tokio::select! {
            biased;
            event = running.next() => event,
            () = give_up.cancelled() => {
                let _ = outlet.settle(Some(running.end_unknown())).await;
                return Done::Nothing;
            }
        };
        let answer = match event {
            Event::Said(message) => match outlet.say(message).await {
                Ok(()) => continue,
                Err(_) => return Done::Nothing,
            },
            Event::Answered(answered) => Some(answered.message),
            Event::Cancelled => None,
        };
        let _ = outlet.settle(answer).await;
        return Done::Nothing;
    }
}

/// Waits for an answer that takes a moment.
pub(super) async fn wait(soon: Soon, id: Id, outlet: Outlet, give_up: CancellationToken) -> Done {
    let result = tokio::select! {
        biased;
        result = soon.work => result,
        () = give_up.cancelled() => Err(Fault::internal("the gateway is shutting down")),
    };
    let answer = match result {
        Ok(result) => envelope::response(&id, &result),
        Err(fault) => fault.message(Some(&id)),
    };
    let _ = outlet.settle(Some(answer)).await;
    drop(soon.permit);
    Done::Nothing
}

/// Takes up a subscription.
pub(super) async fn grant<G: Gateway>(
    wanted: Box<Wanted>,
    gateway: Arc<G>,
    place: Place,
    give_up: CancellationToken,
) -> Done {
    tokio::select! {
        biased;
        () = place.cancel.cancelled() => Done::Grant(None),
        () = give_up.cancelled() => Done::Grant(None),
        subscription = wanted.grant(&*gateway) => Done::Grant(Some(Box::new(Granted { subscription, place }))),
    }
}
