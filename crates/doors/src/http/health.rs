//! `/healthz` and `/readyz`: whether the process is alive, and whether it can take calls that change something now.
//!
//! Both answer from what is known already, without a credential and without asking the store, so that anybody may ask as often as
//! they like. They name no tenant, host, path or error; the operator finds those in the log and with `servanda doctor`.
//! Deliberately not here: what is known (a port, [`Health`]).

use std::{fmt, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use serde::Serialize;
use servanda_engine::Gateway;

use super::{HttpDoor, json, serve::Draining};

/// Where to ask whether the process is alive.
pub(super) const ALIVE: &str = "/healthz";
/// Where to ask whether it can take calls.
pub(super) const READY: &str = "/readyz";

/// What is known about this gateway without asking anybody.
pub trait Health: Send + Sync + fmt::Debug {
    /// Whether the process runs as it should; a restart is the cure if not.
    fn alive(&self) -> Result<(), Ailment>;

    /// Whether a call that changes something would be taken now; time is the cure if not.
    fn ready(&self) -> Result<(), Ailment>;

    /// How long ago the store last took a write; none if it has not yet.
    fn store_wrote_ms_ago(&self) -> Option<u64> {
        None
    }
}

/// Why a gateway is not well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ailment {
    /// One word for programs.
    pub code: &'static str,
    /// The same for people.
    pub told: &'static str,
}

/// For a door whose gateway keeps nothing: it is well as long as it answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysWell;

impl Health for AlwaysWell {
    fn alive(&self) -> Result<(), Ailment> {
        Ok(())
    }

    fn ready(&self) -> Result<(), Ailment> {
        Ok(())
    }
}

const DRAINING: Ailment = Ailment {
    code: "draining",
    told: "this gateway is about to end: it finishes what is under way and takes nothing new",
};

#[derive(Serialize)]
struct Report {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreReport>,
}

#[derive(Serialize)]
struct StoreReport {
    wrote_ms_ago: Option<u64>,
}

pub(super) async fn alive<G: Gateway>(State(door): State<Arc<HttpDoor<G>>>) -> Response {
    answer(door.health.alive(), "alive", "not_alive", None)
}

pub(super) async fn ready<G: Gateway>(State(door): State<Arc<HttpDoor<G>>>, request: Request) -> Response {
    let draining = request.extensions().get::<Draining>().is_some_and(|draining| draining.closing.is_cancelled());
    let store = Some(StoreReport { wrote_ms_ago: door.health.store_wrote_ms_ago() });
    let ready = if draining { Err(DRAINING) } else { door.health.ready() };
    answer(ready, "ready", "not_ready", store)
}

/// What comes in while the door drains and is no question about its health.
pub(super) fn turned_away() -> Response {
    answer(Err(DRAINING), "", "not_ready", None)
}

fn answer(
    found: Result<(), Ailment>,
    well: &'static str,
    unwell: &'static str,
    store: Option<StoreReport>,
) -> Response {
    let (status, report) = match found {
        Ok(()) => (StatusCode::OK, Report { status: well, reason: None, message: None, store }),
        Err(Ailment { code, told }) => {
            let report = Report { status: unwell, reason: Some(code), message: Some(told), store };
            (StatusCode::SERVICE_UNAVAILABLE, report)
        }
    };
    // A struct of words and numbers has nothing in it that JSON could refuse.
    let mut response = json(serde_json::to_vec(&report).unwrap_or_default());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
