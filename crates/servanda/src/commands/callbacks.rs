//! `servanda callbacks`: lists the receivers of callbacks and of notices about approvals, with deliveries that are pending or were given up,
//! and tests one. Works while a gateway is running. Never shows a secret or a full address.

use std::{path::Path, time::Instant};

use serde_json::json;
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_effects::effect::EffectEnding;
use servanda_engine::{
    SystemClock,
    callbacks::{ANSWER_MS_MAX, CallbackDelivery, CallbackSubscription, CallbackTransport as _, Callbacks, deliveries},
};
use servanda_upstream::{WebhookClient, WebhookResponse, WebhookSendError};

use crate::{
    cli::{CallbacksArgs, CallbacksCommand},
    configuration,
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
};

pub(crate) async fn run(config: &Path, args: &CallbacksArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    match &args.command {
        // Listing works without the callbacks' secrets.
        None => list(&loaded, screen).await,
        Some(CallbacksCommand::Test { name }) => test(&loaded.callbacks()?, name, screen).await,
    }
}

/// The parts of a callback that may be shown.
struct ShownCallback {
    name: String,
    /// What it is told.
    on: Vec<String>,
    /// Of which tools, or of which tickets.
    about: Vec<String>,
    is_for_approvals: bool,
    /// Scheme, host and port, if they are known here.
    origin: Option<String>,
}

fn configured(loaded: &LoadedConfig) -> Result<Vec<ShownCallback>, CommandFailure> {
    let subscriptions = loaded.subscriptions()?.into_iter();
    let known = subscriptions.zip(loaded.config.callbacks.iter().enumerate());
    let of_calls = known.map(|(subscription, (number, config))| ShownCallback {
        on: ends(&subscription),
        name: subscription.name,
        about: subscription.tools,
        is_for_approvals: false,
        origin: origin(loaded, &format!("callbacks[{number}].url"), &config.url),
    });
    let of_approvals = loaded.config.approvals.notify.iter().enumerate().map(|(number, config)| ShownCallback {
        name: config.name.clone(),
        on: config.on.iter().map(|trigger| format!("approval {}", trigger.kind().word())).collect(),
        about: config.groups.iter().cloned().collect(),
        is_for_approvals: true,
        origin: origin(loaded, &format!("approvals.notify[{number}].url"), &config.url),
    });
    Ok(of_calls.chain(of_approvals).collect())
}

fn origin(loaded: &LoadedConfig, field: &str, url: &str) -> Option<String> {
    loaded.webhook_address(field, url).ok().map(|address| address.origin())
}

async fn list(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let callbacks = configured(loaded)?;
    let place = configuration::ledger_place(loaded)?;
    let kept = if place.is_missing() {
        Vec::new()
    } else {
        let ledger = place.open().await?;
        let kept = deliveries(ledger.as_ref(), SystemClock.now()).await;
        ledger.close().await;
        kept.map_err(|error| CommandFailure::failed(error.to_string()).hint("`servanda doctor` looks at the ledger"))?
    };
    if screen.json {
        return screen.json(&json!({
            "callbacks": callbacks.iter().map(described).collect::<Vec<_>>(),
            "deliveries": kept.iter().map(on_its_way).collect::<Vec<_>>(),
        }));
    }
    if callbacks.is_empty() {
        screen
            .say("there are no `callbacks` and no `approvals.notify` in the configuration, so no receiver is notified");
    } else {
        screen.data(shown(&callbacks))?;
    }
    if !kept.is_empty() {
        screen.data(under_way(&kept))?;
    }
    match (callbacks.first(), kept.iter().find(|delivery| delivery.given_up_at.is_some())) {
        (_, Some(given_up)) => screen.hint(format_args!(
            "some were given up; once the receiver works again: servanda callbacks test {}",
            given_up.callback
        )),
        (Some(callback), None) => screen.hint(format_args!("servanda callbacks test {}", callback.name)),
        (None, None) => screen.hint("docs/callbacks.md says how to add one"),
    }
    Ok(())
}

async fn test(callbacks: &Callbacks, name: &str, screen: Screen) -> Result<(), CommandFailure> {
    let id = format!("msg_test_{}", uuid::Uuid::new_v4().simple());
    let (Some(receiver), Some(letter)) = (callbacks.find(name), callbacks.test_letter(name, &id, SystemClock.now()))
    else {
        return Err(CommandFailure::bad_input(format!("there is no callback `{name}`"))
            .hint("`servanda callbacks` lists those of the configuration"));
    };
    let post = WebhookClient::new(ANSWER_MS_MAX).map_err(|WebhookSendError(why)| CommandFailure::failed(why))?;
    let started = Instant::now();
    let came = post.post(&receiver.address, letter).await;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if screen.json {
        let (status, error) = match &came {
            Ok(receipt) => (Some(receipt.status), None),
            Err(WebhookSendError(why)) => (None, Some(why)),
        };
        screen.json(&json!({ "callback": name, "id": id, "status": status, "error": error, "took_ms": took_ms }))?;
    }
    let origin = receiver.address.origin();
    match came {
        Ok(WebhookResponse { status: status @ 200..=299, .. }) => {
            if !screen.json {
                screen.page(format_args!("`{name}` at {origin} took {id} with status {status} in {took_ms} ms"))?;
            }
            Ok(())
        }
        Ok(WebhookResponse { status, .. }) => Err(CommandFailure::failed(format!(
            "`{name}` at {origin} answered {id} with status {status} in {took_ms} ms"
        ))
        .hint(what_it_means(status))),
        Err(WebhookSendError(why)) => {
            Err(CommandFailure::failed(format!("`{name}` at {origin} did not get {id}: {why}"))
                .hint("is the receiver running, and its certificate known to this machine?"))
        }
    }
}

const fn what_it_means(status: u16) -> &'static str {
    match status {
        300..=399 => "redirects are not followed: set `url` to where it leads",
        400 | 401 | 403 => "the receiver may have another secret, or checks another signature: see docs/callbacks.md",
        404 | 405 => "the receiver accepts nothing there: look at the path of `url`",
        410 => "the receiver does not want events any more: take the callback out of the configuration",
        429 | 503 => "the receiver is busy: events are tried again later",
        _ => "look into the receiver's log",
    }
}

fn ends(subscription: &CallbackSubscription) -> Vec<String> {
    let word = |ending: &EffectEnding| match ending {
        EffectEnding::Completed => "completed",
        EffectEnding::Failed => "failed",
        EffectEnding::Unknown => "unknown",
    };
    subscription.on.iter().map(|ending| word(ending).to_owned()).collect()
}

fn described(ShownCallback { name, on, about, is_for_approvals, origin }: &ShownCallback) -> serde_json::Value {
    let about_what = if *is_for_approvals { "groups" } else { "tools" };
    json!({ "name": name, "origin": origin, "on": on, about_what: about })
}

fn on_its_way(delivery: &CallbackDelivery) -> serde_json::Value {
    json!({
        "callback": delivery.callback,
        "event_id": delivery.event_id,
        "event_type": delivery.event_type,
        "state": state(delivery),
        "attempts": delivery.attempts,
        "created_at": delivery.created_at.to_string(),
        "due_at": delivery.due_at.to_string(),
        "last": delivery.last,
    })
}

fn state(delivery: &CallbackDelivery) -> &'static str {
    if delivery.given_up_at.is_some() { "given_up" } else { "pending" }
}

fn shown(callbacks: &[ShownCallback]) -> String {
    let mut shown = table(&["callback", "to", "on", "about"]);
    for ShownCallback { name, on, about, is_for_approvals, origin } in callbacks {
        let about = match (about.is_empty(), is_for_approvals) {
            (true, true) => "every ticket".to_owned(),
            (true, false) => "long_running, async".to_owned(),
            (false, true) => format!("tickets of {}", about.join(", ")),
            (false, false) => about.join(", "),
        };
        let origin = origin.clone().unwrap_or_else(|| "not known here: see `servanda check`".to_owned());
        shown.add_row([name.clone(), origin, on.join(", "), about]);
    }
    lines(&shown)
}

fn under_way(kept: &[CallbackDelivery]) -> String {
    let mut shown = table(&["event", "callback", "state", "attempts", "next", "last"]);
    for delivery in kept {
        let (state, next) = match delivery.given_up_at {
            Some(at) => (paint(state(delivery), TextStyle::Bad), format!("given up {at}")),
            None => (paint(state(delivery), TextStyle::Careful), delivery.due_at.to_string()),
        };
        let last = delivery.last.clone().unwrap_or_default();
        let attempts = delivery.attempts.to_string();
        shown.add_row([delivery.event_id.clone(), delivery.callback.clone(), state, attempts, next, last]);
    }
    lines(&shown)
}
