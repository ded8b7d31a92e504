//! `/livez`, `/healthz` and `/readyz`: whether the process is alive, whether it is well (not without its store), and
//! whether it can take calls that change something now.
//!
//! All three answer from what is known already, without a credential and without asking the store, so that frequent
//! probes cost nothing. They name no tenant, host, path or error; the operator finds those in the log and with
//! `servanda doctor`. Deliberately not here: how the health is found out (a port, [`Health`]).

use std::fmt;

use http::{HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use servanda_engine::Gateway;

use super::{DoorRequestHead, DoorResponse, HttpDoor, json, not_for_method};

/// Tells whether the process is alive. If it is not, restart it.
pub(super) const ALIVE: &str = "/livez";
/// Tells whether the gateway is well, its store included: for people and monitors, because no restart brings a store
/// back.
pub(super) const WELL: &str = "/healthz";
/// Tells whether the gateway can take calls.
pub(super) const READY: &str = "/readyz";

/// What is known about this gateway's health. Implementations answer at once and ask no other system.
pub trait Health: Send + Sync + fmt::Debug {
    /// Whether the process runs as it should; if not, restart it.
    fn alive(&self) -> Result<(), HealthProblem>;

    /// Whether the store takes writes; if not, repair the store.
    fn store(&self) -> Result<(), HealthProblem>;

    /// Which upstreams answer; `None` if that is not known.
    fn upstreams(&self) -> Option<UpstreamsReport> {
        None
    }

    /// A word that distinguishes this gateway's configuration from others and reveals nothing else of it; `None` if
    /// there is no configuration file.
    fn configuration(&self) -> Option<&str> {
        None
    }

    /// Whether the gateway would take a call that changes something now; if not, wait.
    fn ready(&self) -> Result<(), HealthProblem>;

    /// How long ago the store last took a write; `None` before the first write.
    fn store_wrote_ms_ago(&self) -> Option<u64> {
        None
    }
}

/// Why a gateway is not well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthProblem {
    /// A code for programs.
    pub code: &'static str,
    /// The same for people.
    pub message: &'static str,
}

/// For a door whose gateway stores nothing: it is well as long as it answers.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysHealthy;

impl Health for AlwaysHealthy {
    fn alive(&self) -> Result<(), HealthProblem> {
        Ok(())
    }

    fn store(&self) -> Result<(), HealthProblem> {
        Ok(())
    }

    fn ready(&self) -> Result<(), HealthProblem> {
        Ok(())
    }
}

const DRAINING: HealthProblem = HealthProblem {
    code: "draining",
    message: "this gateway is shutting down: it finishes the running requests and accepts no new ones",
};

#[derive(Serialize)]
struct HealthReport {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<HealthChecks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstreams: Option<UpstreamsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<String>,
}

/// The checks: `ok`, or the code of the problem.
#[derive(Serialize)]
struct HealthChecks {
    process: &'static str,
    store: &'static str,
}

/// What an answer contains besides its status.
#[derive(Default)]
struct HealthDetails {
    checks: Option<HealthChecks>,
    store: Option<StoreReport>,
    upstreams: Option<UpstreamsReport>,
    configuration: Option<String>,
}

/// How many upstreams answer. Shown without a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamsReport {
    /// How many answered when they were last asked.
    pub answering: usize,
    /// How many did not.
    pub not_answering: usize,
    /// The ids of those that did not, if they may be shown without a credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_answering_ids: Option<Vec<String>>,
}

#[derive(Serialize)]
struct StoreReport {
    wrote_ms_ago: Option<u64>,
}

/// Answers a request to one of the three paths.
pub(super) fn answer<G: Gateway>(door: &HttpDoor<G>, request_head: &DoorRequestHead) -> DoorResponse {
    if !matches!(request_head.parts.method, Method::GET | Method::HEAD) {
        return not_for_method("GET,HEAD");
    }
    match request_head.parts.uri.path() {
        ALIVE => report(door.health.alive(), ["alive", "not_alive"], HealthDetails::default()),
        WELL => well(door),
        _ => ready(door, request_head.draining.closing.is_cancelled()),
    }
}

fn well<G: Gateway>(door: &HttpDoor<G>) -> DoorResponse {
    let (process, store) = (door.health.alive(), door.health.store());
    let word = |found: &Result<(), HealthProblem>| found.as_ref().map_or_else(|problem| problem.code, |()| "ok");
    let checks = Some(HealthChecks { process: word(&process), store: word(&store) });
    report(
        process.and(store),
        ["ok", "not_ok"],
        HealthDetails {
            checks,
            configuration: door.health.configuration().map(str::to_owned),
            ..HealthDetails::default()
        },
    )
}

fn ready<G: Gateway>(door: &HttpDoor<G>, draining: bool) -> DoorResponse {
    let store = Some(StoreReport { wrote_ms_ago: door.health.store_wrote_ms_ago() });
    let ready = if draining { Err(DRAINING) } else { door.health.ready() };
    report(
        ready,
        ["ready", "not_ready"],
        HealthDetails { store, upstreams: door.health.upstreams(), ..HealthDetails::default() },
    )
}

/// The answer to a request that arrives while the door drains and is not a health check.
pub(super) fn draining_response() -> DoorResponse {
    report(Err(DRAINING), ["", "not_ready"], HealthDetails::default())
}

/// `words` are the status of a good report and of a bad one.
fn report(found: Result<(), HealthProblem>, words: [&'static str; 2], details: HealthDetails) -> DoorResponse {
    let HealthDetails { checks, store, upstreams, configuration } = details;
    let [good, bad] = words;
    let (status, word, problem) = match found {
        Ok(()) => (StatusCode::OK, good, None),
        Err(problem) => (StatusCode::SERVICE_UNAVAILABLE, bad, Some(problem)),
    };
    let (reason, message) = (problem.map(|problem| problem.code), problem.map(|problem| problem.message));
    let report = HealthReport { status: word, reason, message, checks, store, upstreams, configuration };
    // A struct of words and numbers always serializes.
    let mut response = json(serde_json::to_vec(&report).unwrap_or_default());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
