//! Connecting: start the server or reach it, find out which era it speaks, agree. One attempt, bounded by a deadline; when
//! to attempt again is the lifecycle's business.

use std::{sync::Arc, time::Duration};

use servanda_mcp::{ClientCapabilities, Era, ProtocolVersion, fields::method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::{Link, Wire};
use crate::{
    Counterpart, NotPresented, PerformFailure, Transport,
    eras::{
        Handshake,
        handshake::{self, Peer, Verdict},
    },
    http::{EventWire, HttpWire},
    http_client::Endpoint,
    request::{Outgoing, Terms, message},
    shared::Setting,
    stdio::{StdioWire, process::Program},
};

/// How long a child that has just shown the first sign of life after the probe's time may still take to answer it, at most.
const FIRST_WORDS_MS_MAX: u64 = 2_000;

/// What is connected to, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) setting: &'a Arc<Setting>,
    /// Where an HTTP server is.
    pub(crate) endpoint: Option<&'a Endpoint>,
    /// Whose connection it becomes; everybody's if none.
    pub(crate) counterpart: Option<&'a Counterpart>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct NotConnected {
    pub(crate) why: String,
    /// How far the legacy handshake came: the server may speak another era than is thought.
    pub(crate) handshake: Handshake,
    /// What it would have to be shown, where that is why.
    pub(crate) lack: Option<NotPresented>,
}

/// Which handshake is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approach {
    /// Ask whether it is modern, fall back to legacy.
    Probe,
    /// The same, with all the time there is: it was modern before.
    Modern,
    /// Legacy at once.
    Legacy,
}

/// Why an attempt failed.
#[derive(Debug)]
enum Failed {
    /// The server went away while it was asked whether it is modern: some exit on what they do not know.
    WhileProbing(String),
    /// The legacy handshake failed.
    WhileInitializing {
        why: String,
        /// How far it came.
        handshake: Handshake,
    },
    /// There is nobody to shake hands with.
    Unreachable(String),
    /// There is nothing to show it, or it does not take that.
    NotShown(NotPresented),
}

/// Connects. `known` is the era of the last connection: it is tried first, and probing is the way back if it fails. A
/// connection for one counterpart is a legacy one, because the modern era needs none.
pub(crate) async fn connect(
    destination: Destination<'_>,
    known: Option<Era>,
    deadline: Instant,
) -> Result<Link, NotConnected> {
    // A connection that is a user's own because of what is shown on it speaks whatever the server speaks.
    let outcome = if destination.counterpart.is_some() && !destination.setting.is_personal() {
        attempt(destination, Approach::Legacy, deadline).await
    } else {
        connect_shared(destination, known, deadline).await
    };
    outcome.map_err(|failed| {
        let (why, handshake, lack) = match failed {
            Failed::WhileProbing(why) | Failed::Unreachable(why) => (why, Handshake::NotBegun, None),
            Failed::WhileInitializing { why, handshake } => (why, handshake, None),
            Failed::NotShown(lack) => (lack.to_string(), Handshake::NotBegun, Some(lack)),
        };
        // Whoever wrote a reason may have quoted the server.
        NotConnected { why: destination.setting.redaction.remove(&why), handshake, lack }
    })
}

async fn connect_shared(destination: Destination<'_>, known: Option<Era>, deadline: Instant) -> Result<Link, Failed> {
    let first = match known {
        Some(Era::Legacy) => Approach::Legacy,
        Some(Era::Modern) => Approach::Modern,
        None => Approach::Probe,
    };
    match attempt(destination, first, deadline).await {
        Ok(link) => Ok(link),
        Err(failed @ (Failed::Unreachable(_) | Failed::NotShown(_))) => Err(failed),
        Err(Failed::WhileProbing(_)) => attempt(destination, Approach::Legacy, deadline).await,
        Err(failed) if first != Approach::Legacy => Err(failed),
        Err(failed) => {
            tracing::debug!(upstream = %destination.setting.spec.id, ?failed, "the legacy handshake failed, probing");
            match attempt(destination, Approach::Probe, deadline).await {
                Err(Failed::WhileProbing(_)) => attempt(destination, Approach::Legacy, deadline).await,
                other => other,
            }
        }
    }
}

async fn attempt(destination: Destination<'_>, approach: Approach, deadline: Instant) -> Result<Link, Failed> {
    let Destination { setting, endpoint, counterpart } = destination;
    let wire = match (&setting.spec.transport, endpoint) {
        (Transport::Stdio { command, args, env, env_pass, cwd }, _) => {
            let held = setting.shown(counterpart).await.map_err(Failed::NotShown)?;
            let program = Program { command, args, env, env_pass, shown: &[], cwd: cwd.as_deref() };
            let wire = StdioWire::start(setting, counterpart.cloned(), program, held);
            Wire::Stdio(wire.map_err(Failed::Unreachable)?)
        }
        (Transport::Http { .. }, Some(endpoint)) => {
            Wire::Http(Box::new(HttpWire::new(setting, counterpart.cloned(), endpoint.clone())))
        }
        (Transport::Http { .. }, None) => return Err(Failed::Unreachable("its address is not valid".to_owned())),
    };
    let failed = match shake_hands(destination, wire, approach, deadline).await {
        Err(Failed::WhileInitializing { why, handshake: Handshake::SaidNo }) => why,
        other => return other,
    };
    let said_no = |why: String| Failed::WhileInitializing { why, handshake: Handshake::SaidNo };
    let Some(endpoint) = endpoint else { return Err(said_no(failed)) };
    // What refuses Streamable HTTP altogether may be a server of the transport before it.
    match EventWire::open(setting, counterpart.cloned(), endpoint, deadline).await {
        Ok(wire) => shake_hands(destination, Wire::Events(wire), Approach::Legacy, deadline).await,
        Err(no_stream) => {
            Err(said_no(format!("{failed}; as a server of 2024-11-05 it was not met either: {no_stream}")))
        }
    }
}

/// The handshake on a fresh connection, which is closed if it fails.
async fn shake_hands(
    destination: Destination<'_>,
    wire: Wire,
    approach: Approach,
    deadline: Instant,
) -> Result<Link, Failed> {
    let none = ClientCapabilities::none();
    let capabilities = destination.counterpart.map_or(&none, |counterpart| &counterpart.capabilities);
    match agree(destination.setting, &wire, capabilities, approach, deadline).await {
        Ok(peer) => Ok(Link::new(wire, peer, destination.setting.next_edition())),
        Err(failed) => {
            wire.close().await;
            Err(failed)
        }
    }
}

async fn agree(
    setting: &Setting,
    wire: &Wire,
    capabilities: &ClientCapabilities,
    approach: Approach,
    deadline: Instant,
) -> Result<Peer, Failed> {
    if approach != Approach::Legacy {
        match probe(setting, wire, approach, deadline).await.map_err(Failed::NotShown)? {
            Verdict::Modern(peer) => {
                wire.agree(peer.version);
                return Ok(peer);
            }
            Verdict::Gone { why } => return Err(Failed::WhileProbing(why)),
            Verdict::Legacy => {}
        }
    }
    match initialize(setting, wire, capabilities, deadline).await {
        Err(Failed::WhileInitializing { why, handshake: Handshake::SaidNo }) => {
            // It started so slowly that it was taken for a legacy server, and has said by now that it is none.
            let late = if let Wire::Stdio(wire) = wire { wire.signs().late().cloned() } else { None };
            let peer = late.ok_or(Failed::WhileInitializing { why, handshake: Handshake::SaidNo })?;
            wire.agree(peer.version);
            Ok(peer)
        }
        other => other,
    }
}

async fn initialize(
    setting: &Setting,
    wire: &Wire,
    capabilities: &ClientCapabilities,
    deadline: Instant,
) -> Result<Peer, Failed> {
    let id = setting.next_id();
    let request = Outgoing::new(id, method::INITIALIZE, None, message::initialize(id, capabilities));
    let failed = |why: String| Failed::WhileInitializing { why, handshake: Handshake::Failed };
    let result = match wire.exchange(request, Terms::until(deadline)).await.outcome() {
        Ok(result) => result,
        Err(PerformFailure::Unavailable { why }) => {
            return Err(Failed::WhileInitializing { why, handshake: Handshake::NotBegun });
        }
        Err(PerformFailure::Died { why }) => return Err(failed(why)),
        Err(PerformFailure::NotPresented(why) | PerformFailure::NotLetIn { why, .. }) => {
            return Err(Failed::NotShown(why));
        }
        Err(failure) => {
            let handshake = handshake_after(&failure);
            return Err(Failed::WhileInitializing { why: format!("the handshake failed: {failure}"), handshake });
        }
    };
    let peer = handshake::initialized(&result).map_err(failed)?;
    wire.agree(peer.version);
    wire.notify(message::initialized(), deadline).await.map_err(failed)?;
    Ok(peer)
}

/// How far the handshake came when `initialize` failed: what a server says that knows no such thing, or one that has no time.
fn handshake_after(failure: &PerformFailure) -> Handshake {
    match failure {
        PerformFailure::Rejected { .. } | PerformFailure::HttpStatus { status: 400 | 404 | 405, .. } => {
            Handshake::SaidNo
        }
        PerformFailure::HttpStatus { .. } | PerformFailure::Busy { .. } => Handshake::NotBegun,
        _ => Handshake::Failed,
    }
}

async fn probe(setting: &Setting, wire: &Wire, approach: Approach, deadline: Instant) -> Result<Verdict, NotPresented> {
    let id = setting.next_id();
    let request = Outgoing::new(id, method::DISCOVER, Some(ProtocolVersion::NEWEST), message::discover(id));
    let give_up = CancellationToken::new();
    let terms = Terms { cancel: give_up.clone(), ..Terms::until(deadline) };
    if let Wire::Stdio(wire) = wire {
        wire.signs().probing(id);
    }
    let asking = wire.exchange(request, terms);
    tokio::pin!(asking);
    let ended = tokio::select! {
        biased;
        ended = &mut asking => ended,
        () = enough(setting, wire, deadline), if approach == Approach::Probe => {
            give_up.cancel();
            asking.await
        }
    };
    let answer = ended.outcome();
    if let Err(PerformFailure::NotPresented(why) | PerformFailure::NotLetIn { why, .. }) = answer {
        return Err(why);
    }
    let answer = answer.as_ref().map(AsRef::as_ref);
    Ok(match wire {
        Wire::Stdio(_) => handshake::stdio_verdict(&answer),
        Wire::Http(_) | Wire::Events(_) => handshake::http_verdict(&answer),
    })
}

/// Waits until a server has had enough time to say that it is modern. A child that has not written a line is starting: it
/// gets half of what is left, and after its first line a moment more.
async fn enough(setting: &Setting, wire: &Wire, deadline: Instant) {
    let probed = (Instant::now() + Duration::from_millis(setting.spec.limits.probe_ms_max)).min(deadline);
    tokio::time::sleep_until(probed).await;
    if let Wire::Stdio(wire) = wire {
        let extended = probed + deadline.saturating_duration_since(probed) / 2;
        if wire.signs().live() {
            return;
        }
        let first_words = async {
            wire.signs().seen().await;
            let moment_ms = setting.spec.limits.probe_ms_max.min(FIRST_WORDS_MS_MAX);
            tokio::time::sleep(Duration::from_millis(moment_ms)).await;
        };
        let _ = tokio::time::timeout_at(extended, first_words).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_handshake_is_told_from_a_failed_one() {
        let rejected = |code| PerformFailure::Rejected { code, message: String::new(), data: None, era: Era::Legacy };
        let status = |status| PerformFailure::HttpStatus { status, excerpt: String::new(), retry_after_ms: None };
        let table = [
            (rejected(-32601), Handshake::SaidNo),
            (status(400), Handshake::SaidNo),
            (status(404), Handshake::SaidNo),
            (status(405), Handshake::SaidNo),
            (status(401), Handshake::NotBegun),
            (status(503), Handshake::NotBegun),
            (PerformFailure::Busy { in_flight_max: 1 }, Handshake::NotBegun),
            (PerformFailure::TimedOut { note: None }, Handshake::Failed),
            (PerformFailure::malformed("x"), Handshake::Failed),
        ];
        for (failure, expected) in table {
            assert_eq!(handshake_after(&failure), expected, "{failure}");
        }
    }
}
