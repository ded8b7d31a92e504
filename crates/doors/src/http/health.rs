//! `/livez`, `/healthz` and `/readyz`: whether the process is alive, whether it is well (it is not without its store), and whether
//! it can take calls that change something now.
//!
//! All answer from what is known already, without a credential and without asking the store, so that anybody may ask as often as
//! they like. They name no tenant, host, path or error; the operator finds those in the log and with `servanda doctor`.
//! Deliberately not here: what is known (a port, [`Health`]).

use std::fmt;

use http::{HeaderValue, Method, StatusCode, header};
use serde::Serialize;
use servanda_engine::Gateway;

use super::{DoorRequestHead, DoorResponse, HttpDoor, json, not_for_method};

/// Where to ask whether the process is alive: if it is not, a restart is the cure.
pub(super) const ALIVE: &str = "/livez";
/// Where to ask whether it is well, its store included: for people and monitors, because no restart brings a store back.
pub(super) const WELL: &str = "/healthz";
/// Where to ask whether it can take calls.
pub(super) const READY: &str = "/readyz";

/// What is known about this gateway without asking anybody.
pub trait Health: Send + Sync + fmt::Debug {
    /// Whether the process runs as it should; a restart is the cure if not.
    fn alive(&self) -> Result<(), HealthProblem>;

    /// Whether the store takes writes; if not, the store is what needs a cure.
    fn store(&self) -> Result<(), HealthProblem>;

    /// Which upstreams answer; none if nobody knows any.
    fn upstreams(&self) -> Option<UpstreamsReport> {
        None
    }

    /// A word that tells this gateway's configuration from others', and nothing else of it; none if it has no file.
    fn configuration(&self) -> Option<&str> {
        None
    }

    /// Whether a call that changes something would be taken now; time is the cure if not.
    fn ready(&self) -> Result<(), HealthProblem>;

    /// How long ago the store last took a write; none if it has not yet.
    fn store_wrote_ms_ago(&self) -> Option<u64> {
        None
    }
}

/// Why a gateway is not well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthProblem {
    /// One word for programs.
    pub code: &'static str,
    /// The same for people.
    pub message: &'static str,
}

/// For a door whose gateway keeps nothing: it is well as long as it answers.
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
    message: "this gateway is about to end: it finishes what is under way and takes nothing new",
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

/// What was looked at: `ok`, or the code of what is wrong.
#[derive(Serialize)]
struct HealthChecks {
    process: &'static str,
    store: &'static str,
}

/// What stands in an answer beside its verdict.
#[derive(Default)]
struct HealthDetails {
    checks: Option<HealthChecks>,
    store: Option<StoreReport>,
    upstreams: Option<UpstreamsReport>,
    configuration: Option<String>,
}

/// How upstreams stand, for everybody who asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamsReport {
    /// How many answered when they were last asked.
    pub answering: usize,
    /// How many did not.
    pub not_answering: usize,
    /// Their ids, where everybody may know them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_answering_ids: Option<Vec<String>>,
}

#[derive(Serialize)]
struct StoreReport {
    wrote_ms_ago: Option<u64>,
}

/// Answers a question at one of the three paths.
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

/// What comes in while the door drains and is no question about its health.
pub(super) fn draining_response() -> DoorResponse {
    report(Err(DRAINING), ["", "not_ready"], HealthDetails::default())
}

/// `words` are the status of an answer that is well and of one that is not.
fn report(found: Result<(), HealthProblem>, words: [&'static str; 2], details: HealthDetails) -> DoorResponse {
    let HealthDetails { checks, store, upstreams, configuration } = details;
    let [good, bad] = words;
    let (status, word, problem) = match found {
        Ok(()) => (StatusCode::OK, good, None),
        Err(problem) => (StatusCode::SERVICE_UNAVAILABLE, bad, Some(problem)),
    };
    let (reason, message) = (problem.map(|problem| problem.code), problem.map(|problem| problem.message));
    let report = HealthReport { status: word, reason, message, checks, store, upstreams, configuration };
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
