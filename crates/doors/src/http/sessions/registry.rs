//! Begins legacy sessions, restores them after a restart, and ends them. `session_notes` stores them meanwhile.

use std::sync::Arc;

use http::StatusCode;
use servanda_authority::AuthenticatedCaller;
use servanda_contract::{Caller, time::Clock};
use servanda_engine::{Gateway, Requester};
use servanda_mcp::Era;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::{
    session_events::SessionEvents,
    session_notes::{self, HttpSessionNotes},
    table::{HttpSession, HttpSessionAddError, HttpSessionLease, HttpSessionLookup, HttpSessionTable, NOTE_EVERY_MS},
};
use crate::{dispatch::ClientInitialization, fault::ProtocolFault, session::LegacyClientSession};

/// The legacy sessions of one door.
#[derive(Debug)]
pub(in crate::http) struct HttpSessionRegistry<G> {
    gateway: Arc<G>,
    sessions: Arc<HttpSessionTable>,
    notes: HttpSessionNotes,
    closed: CancellationToken,
    _close_on_drop: DropGuard,
}

impl<G: Gateway> HttpSessionRegistry<G> {
    pub(in crate::http) fn new(gateway: Arc<G>, sessions: HttpSessionTable, clock: Arc<dyn Clock>) -> Self {
        // Longer than a session may be idle, because a session in use is not stored at every use.
        let keep_ms = sessions.limits().idle_ms_max.saturating_add(NOTE_EVERY_MS);
        let notes = HttpSessionNotes::new(gateway.notebook(), clock, keep_ms);
        let closed = CancellationToken::new();
        let guard = closed.clone().drop_guard();
        Self { gateway, sessions: Arc::new(sessions), notes, closed, _close_on_drop: guard }
    }

    /// Begins a session and returns its id.
    pub(in crate::http) async fn begin(
        &self,
        authority: &Arc<AuthenticatedCaller>,
        initialization: ClientInitialization,
    ) -> Result<String, ProtocolFault> {
        let id = Uuid::new_v4().to_string();
        let authority = Arc::clone(authority);
        let caller =
            Arc::new(Caller { client: initialization.client, session: Some(id.clone()), ..authority.caller() });
        let affinity = Arc::from(id.as_str());
        let requester =
            Requester { caller, authority, era: Era::Legacy, capabilities: initialization.capabilities, affinity };
        let session =
            LegacyClientSession::new(requester, initialization.version, Arc::default(), self.sessions.limits().session);
        let (lease, _) = self.sessions.add(&id, session).map_err(not_added)?;
        // First, because this future is dropped at any await if the client goes away, and a session without its task
        // would exist and never be sent anything.
        self.spawn_session_events(lease.session(), false);
        self.notes.write(lease.session()).await;
        Ok(id)
    }

    /// Takes a session into use: one in memory, or one restored from its note.
    pub(in crate::http) async fn lease(
        &self,
        id: &str,
        authority: &Arc<AuthenticatedCaller>,
    ) -> Result<HttpSessionLease, ProtocolFault> {
        match self.sessions.lease(id, authority) {
            HttpSessionLookup::Active(lease) => Ok(lease),
            HttpSessionLookup::Nothing => self.revive(id, authority).await,
            HttpSessionLookup::Ended => Err(no_such_session()),
        }
    }

    /// Ends a session for good.
    pub(in crate::http) async fn end(&self, session: &HttpSession) {
        self.sessions.end(&session.id);
        self.notes.erase(session).await;
    }

    /// Stores what changed.
    pub(in crate::http) async fn write_note(&self, session: &HttpSession) {
        self.notes.write(session).await;
    }

    async fn revive(&self, id: &str, authority: &Arc<AuthenticatedCaller>) -> Result<HttpSessionLease, ProtocolFault> {
        // Session ids are UUIDs; no other id is looked up.
        let note = match Uuid::try_parse(id) {
            Ok(_) => self.notes.read(id).await,
            Err(_) => None,
        };
        let remembered = note.and_then(|text| session_notes::read(id, &text)).ok_or_else(no_such_session)?;
        let present = authority.caller();
        if !remembered.caller.is_same_party(&present) {
            // A stranger does not even learn that the session exists.
            return Err(no_such_session());
        }
        let affinity = Arc::from(id);
        let Caller { client, session, .. } = remembered.caller;
        let (caller, capabilities) = (Arc::new(Caller { client, session, ..present }), remembered.capabilities);
        let requester =
            Requester { caller, authority: Arc::clone(authority), era: Era::Legacy, capabilities, affinity };
        let session =
            LegacyClientSession::new(requester, remembered.version, Arc::default(), self.sessions.limits().session);
        if let Some(level) = remembered.log_level {
            session.set_log_level(level);
        }
        for uri in &remembered.watched {
            // Fewer may fit than before, because the limit may have changed.
            let _ = session.prepare_watch(uri);
        }
        let (lease, added) = self.sessions.add(id, session).map_err(not_added)?;
        if added {
            tracing::info!("a session from before the restart is restored");
            // First, for the same reason as in `begin`.
            self.spawn_session_events(lease.session(), true);
            self.notes.write(lease.session()).await;
        }
        Ok(lease)
    }

    fn spawn_session_events(&self, session: &Arc<HttpSession>, revived: bool) {
        let session_events = SessionEvents {
            news: self.gateway.change_events(),
            client_messages: self.gateway.subscribe_session(&session.id),
            gateway: Arc::clone(&self.gateway),
            sessions: Arc::clone(&self.sessions),
            session: Arc::clone(session),
            notes: self.notes.clone(),
            revived,
            closed: self.closed.clone(),
        };
        tokio::spawn(session_events.run());
    }
}

fn no_such_session() -> ProtocolFault {
    ProtocolFault::invalid_request(StatusCode::NOT_FOUND, "there is no such session")
        .hint("the session ended or was idle for too long; start a new one with `initialize`")
}

fn not_added(why: HttpSessionAddError) -> ProtocolFault {
    match why {
        HttpSessionAddError::AllInUse => {
            ProtocolFault::busy("every session is in use", "end a session with DELETE, or try again in a minute")
        }
        HttpSessionAddError::OwnInUse => ProtocolFault::busy(
            "too many of your sessions are in use",
            "end a session with DELETE, or use one for several requests",
        ),
        HttpSessionAddError::Ended => no_such_session(),
    }
}
