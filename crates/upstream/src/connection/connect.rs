//! Connecting: starts or reaches the server, finds out which era it speaks, and does the handshake. One attempt, bounded by a deadline; the
//! lifecycle decides when to attempt again.

use std::{sync::Arc, time::Duration};

use servanda_mcp::{ClientCapabilities, Era, ProtocolVersion, fields::method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::link::{Link, Wire};
use crate::{
    MissingCredential, PerformFailure, Transport, UpstreamRequester,
    eras::{
        HandshakeOutcome,
        handshake::{self, EraVerdict, UpstreamPeer},
    },
    http::{EventWire, HttpWire},
    http_client::HttpEndpoint,
    request::{WireRequest, WireRequestTerms, message},
    shared::SharedContext,
    stdio::{StdioWire, process::ServerProgram},
};

/// The longest time that a child has to answer the probe after its first output, when that output came after the probe's time.
const FIRST_WORDS_MS_MAX: u64 = 2_000;

/// The server to connect to, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectTarget<'a> {
    pub(crate) context: &'a Arc<SharedContext>,
    /// The address of an HTTP server.
    pub(crate) endpoint: Option<&'a HttpEndpoint>,
    /// The requester that the connection is for; none for the shared one.
    pub(crate) requester: Option<&'a UpstreamRequester>,
}

/// Why there is no connection.
#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) why: String,
    /// How far the legacy handshake came. It tells whether the server may speak another era than presumed.
    pub(crate) handshake: HandshakeOutcome,
    /// The missing credential, if that is the reason.
    pub(crate) lack: Option<MissingCredential>,
}

/// Which handshake to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandshakeMode {
    /// Ask whether the server is modern, and fall back to legacy.
    Probe,
    /// The same, but the probe may use all the time there is, because the server was modern before.
    Modern,
    /// Legacy without a probe.
    Legacy,
}

/// Why an attempt failed.
#[derive(Debug)]
enum ConnectAttemptError {
    /// The server went away while it was asked whether it is modern: some servers exit on methods they do not know.
    WhileProbing(String),
    /// The legacy handshake failed.
    WhileInitializing {
        why: String,
        /// How far it came.
        handshake: HandshakeOutcome,
    },
    /// The server could not be started or reached.
    Unreachable(String),
    /// The credentials are missing, or the server rejects them.
    MissingCredential(MissingCredential),
}

/// Connects. `known` is the era of the last connection: it is tried first, and probing is the fallback. A connection for one requester is a
/// legacy one, because the modern era needs none.
pub(crate) async fn connect(
    destination: ConnectTarget<'_>,
    known: Option<Era>,
    deadline: Instant,
) -> Result<Link, ConnectError> {
    // A connection that is a user's own because of the user's credentials uses whatever era the server speaks.
    let outcome = if destination.requester.is_some() && !destination.context.is_personal() {
        attempt(destination, HandshakeMode::Legacy, deadline).await
    } else {
        connect_shared(destination, known, deadline).await
    };
    outcome.map_err(|failed| {
        let (why, handshake, lack) = match failed {
            ConnectAttemptError::WhileProbing(why) | ConnectAttemptError::Unreachable(why) => {
                (why, HandshakeOutcome::NotBegun, None)
            }
            ConnectAttemptError::WhileInitializing { why, handshake } => (why, handshake, None),
            ConnectAttemptError::MissingCredential(lack) => (lack.to_string(), HandshakeOutcome::NotBegun, Some(lack)),
        };
        // The reason may quote the server.
        ConnectError { why: destination.context.redaction.remove(&why), handshake, lack }
    })
}

async fn connect_shared(
    destination: ConnectTarget<'_>,
    known: Option<Era>,
    deadline: Instant,
) -> Result<Link, ConnectAttemptError> {
    let first = match known {
        Some(Era::Legacy) => HandshakeMode::Legacy,
        Some(Era::Modern) => HandshakeMode::Modern,
        None => HandshakeMode::Probe,
    };
    match attempt(destination, first, deadline).await {
        Ok(link) => Ok(link),
        Err(failed @ (ConnectAttemptError::Unreachable(_) | ConnectAttemptError::MissingCredential(_))) => Err(failed),
        Err(ConnectAttemptError::WhileProbing(_)) => attempt(destination, HandshakeMode::Legacy, deadline).await,
        Err(failed) if first != HandshakeMode::Legacy => Err(failed),
        Err(failed) => {
            tracing::debug!(upstream = %destination.context.spec.id, ?failed, "the legacy handshake failed, probing");
            match attempt(destination, HandshakeMode::Probe, deadline).await {
                Err(ConnectAttemptError::WhileProbing(_)) => {
                    attempt(destination, HandshakeMode::Legacy, deadline).await
                }
                other => other,
            }
        }
    }
}

async fn attempt(
    destination: ConnectTarget<'_>,
    approach: HandshakeMode,
    deadline: Instant,
) -> Result<Link, ConnectAttemptError> {
    let ConnectTarget { context, endpoint, requester } = destination;
    let wire = match (&context.spec.transport, endpoint) {
        (Transport::Stdio { command, args, env, env_pass, cwd }, _) => {
            let held =
                context.connection_credentials(requester).await.map_err(ConnectAttemptError::MissingCredential)?;
            let program = ServerProgram { command, args, env, env_pass, credentials: &[], cwd: cwd.as_deref() };
            let wire = StdioWire::start(context, requester.cloned(), program, held);
            Wire::Stdio(wire.map_err(ConnectAttemptError::Unreachable)?)
        }
        (Transport::Http { .. }, Some(endpoint)) => {
            Wire::Http(Box::new(HttpWire::new(context, requester.cloned(), endpoint.clone())))
        }
        (Transport::Http { .. }, None) => {
            return Err(ConnectAttemptError::Unreachable("its address is not valid".to_owned()));
        }
    };
    let failed = match shake_hands(destination, wire, approach, deadline).await {
        Err(ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::SaidNo }) => why,
        other => return other,
    };
    let said_no = |why: String| ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::SaidNo };
    let Some(endpoint) = endpoint else { return Err(said_no(failed)) };
    // A server that refuses Streamable HTTP altogether may have the older HTTP transport.
    match EventWire::open(context, requester.cloned(), endpoint, deadline).await {
        Ok(wire) => shake_hands(destination, Wire::Events(wire), HandshakeMode::Legacy, deadline).await,
        Err(no_stream) => {
            Err(said_no(format!("{failed}; it does not speak the HTTP transport of 2024-11-05 either: {no_stream}")))
        }
    }
}

/// Does the handshake on a new connection, and closes the connection if it fails.
async fn shake_hands(
    destination: ConnectTarget<'_>,
    wire: Wire,
    approach: HandshakeMode,
    deadline: Instant,
) -> Result<Link, ConnectAttemptError> {
    let none = ClientCapabilities::none();
    let capabilities = destination.requester.map_or(&none, |requester| &requester.capabilities);
    match agree(destination.context, &wire, capabilities, approach, deadline).await {
        Ok(peer) => Ok(Link::new(wire, peer, destination.context.next_edition())),
        Err(failed) => {
            wire.close().await;
            Err(failed)
        }
    }
}

async fn agree(
    context: &SharedContext,
    wire: &Wire,
    capabilities: &ClientCapabilities,
    approach: HandshakeMode,
    deadline: Instant,
) -> Result<UpstreamPeer, ConnectAttemptError> {
    if approach != HandshakeMode::Legacy {
        match probe(context, wire, approach, deadline).await.map_err(ConnectAttemptError::MissingCredential)? {
            EraVerdict::Modern(peer) => {
                wire.agree(peer.version);
                return Ok(peer);
            }
            EraVerdict::Gone { why } => return Err(ConnectAttemptError::WhileProbing(why)),
            EraVerdict::Legacy => {}
        }
    }
    match initialize(context, wire, capabilities, deadline).await {
        Err(ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::SaidNo }) => {
            // The server started so slowly that the gateway took it for a legacy one, and by now it has said that it is modern.
            let late = if let Wire::Stdio(wire) = wire { wire.signals().late_peer().cloned() } else { None };
            let peer =
                late.ok_or(ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::SaidNo })?;
            wire.agree(peer.version);
            Ok(peer)
        }
        other => other,
    }
}

async fn initialize(
    context: &SharedContext,
    wire: &Wire,
    capabilities: &ClientCapabilities,
    deadline: Instant,
) -> Result<UpstreamPeer, ConnectAttemptError> {
    let id = context.next_id();
    let request = WireRequest::new(id, method::INITIALIZE, None, message::initialize(id, capabilities));
    let failed = |why: String| ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::Failed };
    let result = match wire.exchange(request, WireRequestTerms::until(deadline)).await.outcome() {
        Ok(result) => result,
        Err(PerformFailure::Unavailable { why }) => {
            return Err(ConnectAttemptError::WhileInitializing { why, handshake: HandshakeOutcome::NotBegun });
        }
        Err(PerformFailure::Died { why }) => return Err(failed(why)),
        Err(PerformFailure::NotPresented(why) | PerformFailure::NotLetIn { why, .. }) => {
            return Err(ConnectAttemptError::MissingCredential(why));
        }
        Err(failure) => {
            let handshake = handshake_after(&failure);
            return Err(ConnectAttemptError::WhileInitializing {
                why: format!("the handshake failed: {failure}"),
                handshake,
            });
        }
    };
    let peer = handshake::initialized(&result).map_err(failed)?;
    wire.agree(peer.version);
    wire.notify(message::initialized(), deadline).await.map_err(failed)?;
    Ok(peer)
}

/// How far the handshake came when `initialize` failed. A server that does not know the method says no; a server that is overloaded has not
/// begun.
fn handshake_after(failure: &PerformFailure) -> HandshakeOutcome {
    match failure {
        PerformFailure::Rejected { .. } | PerformFailure::HttpStatus { status: 400 | 404 | 405, .. } => {
            HandshakeOutcome::SaidNo
        }
        PerformFailure::HttpStatus { .. } | PerformFailure::Busy { .. } => HandshakeOutcome::NotBegun,
        _ => HandshakeOutcome::Failed,
    }
}

async fn probe(
    context: &SharedContext,
    wire: &Wire,
    approach: HandshakeMode,
    deadline: Instant,
) -> Result<EraVerdict, MissingCredential> {
    let id = context.next_id();
    let request = WireRequest::new(id, method::DISCOVER, Some(ProtocolVersion::NEWEST), message::discover(id));
    let give_up = CancellationToken::new();
    let terms = WireRequestTerms { cancel: give_up.clone(), ..WireRequestTerms::until(deadline) };
    if let Wire::Stdio(wire) = wire {
        wire.signals().set_probe_id(id);
    }
    let asking = wire.exchange(request, terms);
    tokio::pin!(asking);
    let ended = tokio::select! {
        biased;
        ended = &mut asking => ended,
        () = probe_time_passed(context, wire, deadline), if approach == HandshakeMode::Probe => {
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

/// Waits until a server has had enough time to say that it is modern. A child that has not written a line is still starting: it gets half
/// of the remaining time, and a moment more after its first line.
async fn probe_time_passed(context: &SharedContext, wire: &Wire, deadline: Instant) {
    let probed = (Instant::now() + Duration::from_millis(context.spec.limits.probe_ms_max)).min(deadline);
    tokio::time::sleep_until(probed).await;
    if let Wire::Stdio(wire) = wire {
        let extended = probed + deadline.saturating_duration_since(probed) / 2;
        if wire.signals().has_output() {
            return;
        }
        let first_words = async {
            wire.signals().wait_for_output().await;
            let moment_ms = context.spec.limits.probe_ms_max.min(FIRST_WORDS_MS_MAX);
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
            (rejected(-32601), HandshakeOutcome::SaidNo),
            (status(400), HandshakeOutcome::SaidNo),
            (status(404), HandshakeOutcome::SaidNo),
            (status(405), HandshakeOutcome::SaidNo),
            (status(401), HandshakeOutcome::NotBegun),
            (status(503), HandshakeOutcome::NotBegun),
            (PerformFailure::Busy { in_flight_max: 1 }, HandshakeOutcome::NotBegun),
            (PerformFailure::TimedOut { note: None }, HandshakeOutcome::Failed),
            (PerformFailure::malformed("x"), HandshakeOutcome::Failed),
        ];
        for (failure, expected) in table {
            assert_eq!(handshake_after(&failure), expected, "{failure}");
        }
    }
}
