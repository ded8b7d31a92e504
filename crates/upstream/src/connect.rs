//! Connecting: start the server or reach it, find out which era it speaks, agree. One attempt, bounded by a deadline; when
//! to attempt again is the lifecycle's business.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use servanda_gates::Notebook;
use servanda_mcp::{Era, ProtocolVersion, fields::method};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    Announcement, PerformFailure, Transport, UpstreamSpec,
    handshake::{self, Peer, Verdict},
    http::{Endpoint, HttpWire},
    link::{Ended, Link, Outgoing, Terms, Wire},
    message,
    process::Program,
    redaction::Redaction,
    stdio::StdioWire,
};

/// Announcements a slow listener may be behind with.
const ANNOUNCEMENTS_MAX: usize = 256;

/// What all connections of one upstream share.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) spec: UpstreamSpec,
    pub(crate) redaction: Redaction,
    /// Every task of this upstream, so that the shutdown can wait for them.
    pub(crate) tasks: TaskTracker,
    changes: watch::Sender<u64>,
    announcements: broadcast::Sender<Announcement>,
    #[expect(dead_code, reason = "the era will be noted down")]
    notebook: Arc<dyn Notebook>,
    last_id: AtomicI64,
}

/// Which handshake is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approach {
    /// Ask whether it is modern, fall back to legacy.
    Probe,
    /// Legacy at once.
    Legacy,
}

/// Why an attempt failed.
#[derive(Debug)]
enum Failed {
    /// The server went away while it was asked whether it is modern: some exit on what they do not know.
    WhileProbing(String),
    /// The legacy handshake failed.
    WhileInitializing(String),
    /// There is nobody to shake hands with.
    Unreachable(String),
}

impl Setting {
    pub(crate) fn new(spec: UpstreamSpec, notebook: Arc<dyn Notebook>) -> Self {
        Self {
            redaction: Redaction::of(&spec.transport),
            spec,
            tasks: TaskTracker::new(),
            changes: watch::Sender::new(0),
            announcements: broadcast::Sender::new(ANNOUNCEMENTS_MAX),
            notebook,
            last_id: AtomicI64::new(0),
        }
    }

    /// A request id, never used before by this upstream: an answer from a former connection finds nobody.
    pub(crate) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Tells that the tool list may have changed.
    pub(crate) fn announce_change(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
        let _ = self.announcements.send(Announcement::ToolsChanged);
    }

    pub(crate) fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Connects. `known` is the era of the last connection: it is tried first, and probing is the way back if it fails.
pub(crate) async fn connect(
    setting: &Arc<Setting>,
    endpoint: Option<&Endpoint>,
    known: Option<Era>,
    deadline: Instant,
) -> Result<Link, String> {
    if known == Some(Era::Legacy) {
        match attempt(setting, endpoint, Approach::Legacy, deadline).await {
            Ok(link) => return Ok(link),
            Err(Failed::Unreachable(why)) => return Err(why),
            Err(Failed::WhileProbing(why) | Failed::WhileInitializing(why)) => {
                tracing::debug!(upstream = %setting.spec.id, why, "the legacy handshake failed, probing");
            }
        }
    }
    let outcome = match attempt(setting, endpoint, Approach::Probe, deadline).await {
        Err(Failed::WhileProbing(_)) => attempt(setting, endpoint, Approach::Legacy, deadline).await,
        other => other,
    };
    outcome.map_err(|failed| match failed {
        // Whoever wrote a reason may have quoted the server.
        Failed::WhileProbing(why) | Failed::WhileInitializing(why) | Failed::Unreachable(why) => {
            setting.redaction.remove(&why)
        }
    })
}

async fn attempt(
    setting: &Arc<Setting>,
    endpoint: Option<&Endpoint>,
    approach: Approach,
    deadline: Instant,
) -> Result<Link, Failed> {
    let wire = match (&setting.spec.transport, endpoint) {
        (Transport::Stdio { command, args, env, env_pass, cwd }, _) => {
            let program = Program { command, args, env, env_pass, cwd: cwd.as_deref() };
            Wire::Stdio(StdioWire::start(setting, program).map_err(Failed::Unreachable)?)
        }
        (Transport::Http { .. }, Some(endpoint)) => {
            Wire::Http(Box::new(HttpWire::new(Arc::clone(setting), endpoint.clone())))
        }
        (Transport::Http { .. }, None) => return Err(Failed::Unreachable("its address is not valid".to_owned())),
    };
    match agree(setting, &wire, approach, deadline).await {
        Ok(peer) => Ok(Link { wire, peer }),
        Err(failed) => {
            wire.close().await;
            Err(failed)
        }
    }
}

/// The handshake on a fresh connection.
async fn agree(setting: &Setting, wire: &Wire, approach: Approach, deadline: Instant) -> Result<Peer, Failed> {
    if approach == Approach::Probe {
        match probe(setting, wire, deadline).await {
            Verdict::Modern(peer) => return Ok(peer),
            Verdict::Gone { why } => return Err(Failed::WhileProbing(why)),
            Verdict::Legacy => {}
        }
    }
    let id = setting.next_id();
    let body = message::initialize(id);
    let request = Outgoing { id, method: method::INITIALIZE, name: None, version: None, body };
    let result = match outcome(wire.exchange(request, Terms::until(deadline)).await) {
        Ok(result) => result,
        Err(PerformFailure::Unavailable { why } | PerformFailure::Died { why }) => {
            return Err(Failed::WhileInitializing(why));
        }
        Err(failure) => return Err(Failed::WhileInitializing(format!("the handshake failed: {failure}"))),
    };
    let peer = handshake::initialized(&result).map_err(Failed::WhileInitializing)?;
    wire.notify(message::initialized(), peer.version, deadline).await.map_err(Failed::WhileInitializing)?;
    Ok(peer)
}

async fn probe(setting: &Setting, wire: &Wire, deadline: Instant) -> Verdict {
    let probe_deadline = Instant::now() + Duration::from_millis(setting.spec.limits.probe_ms_max);
    let id = setting.next_id();
    let version = Some(ProtocolVersion::NEWEST);
    let request = Outgoing { id, method: method::DISCOVER, name: None, version, body: message::discover(id) };
    let answer = outcome(wire.exchange(request, Terms::until(deadline.min(probe_deadline))).await);
    let answer = answer.as_ref().map(AsRef::as_ref);
    match wire {
        Wire::Stdio(_) => handshake::stdio_verdict(&answer),
        Wire::Http(_) => handshake::http_verdict(&answer),
    }
}

/// The end of a request for which no other connection is tried.
pub(crate) fn outcome(ended: Ended) -> Result<bytes::Bytes, PerformFailure> {
    match ended {
        Ended::Answered(result) => Ok(result),
        Ended::Failed(failure) | Ended::Disowned(failure) => Err(failure),
        Ended::NeverLeft { why } => Err(PerformFailure::Unavailable { why }),
    }
}
