//! The stored note of a legacy session, which lets the session outlive the process: who it is and what it subscribed
//! to. Its running requests are not stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use servanda_contract::{Caller, CallerActor, Timestamp, time::Clock};
use servanda_engine::{Note, NoteKind, Notebook};
use servanda_mcp::{ClientCapabilities, LogLevel, ProtocolVersion};

use super::table::HttpSession;
use crate::session::LegacyClientSession;

/// Stores sessions.
#[derive(Debug, Clone)]
pub(super) struct HttpSessionNotes {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
    keep_ms: u64,
}

/// A session as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct SessionNote {
    tenant: String,
    principal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    actors: Vec<CallerActor>,
    client: Option<String>,
    protocol_version: String,
    capabilities: Box<RawValue>,
    log_level: Option<String>,
    watched: Vec<String>,
}

/// A session as it is read back.
#[derive(Debug)]
pub(super) struct RestoredHttpSession {
    pub(super) caller: Caller,
    pub(super) version: ProtocolVersion,
    pub(super) capabilities: ClientCapabilities,
    pub(super) log_level: Option<LogLevel>,
    pub(super) watched: Vec<String>,
}

impl HttpSessionNotes {
    /// Keeps the note of an unused session for `keep_ms`.
    pub(super) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>, keep_ms: u64) -> Self {
        Self { notebook, clock, keep_ms }
    }

    /// Stores a session, unless it has ended. A session that cannot be stored still works until the restart.
    pub(super) async fn write(&self, session: &HttpSession) {
        let _turn = session.note_lock.lock().await;
        if session.ended.is_cancelled() {
            return;
        }
        let Ok(value) = write(&session.session) else { return };
        let expires_at = Timestamp::from_unix_ms(self.clock.now().unix_ms().saturating_add(self.keep_ms));
        let key = session.id.clone();
        let note = Note { kind: NoteKind::Session, key, value, expires_at: Some(expires_at) };
        if let Err(error) = self.notebook.write(note).await {
            tracing::warn!(%error, "a session cannot be stored and will not survive a restart");
        }
    }

    /// Deletes the note of a session that has ended.
    pub(super) async fn erase(&self, session: &HttpSession) {
        let _turn = session.note_lock.lock().await;
        if let Err(error) = self.notebook.erase(NoteKind::Session, &session.id).await {
            tracing::warn!(%error, "the stored note of an ended session cannot be deleted");
        }
    }

    /// The stored note of a session, if there is one.
    pub(super) async fn read(&self, id: &str) -> Option<String> {
        match self.notebook.read(NoteKind::Session, id, self.clock.now()).await {
            Ok(note) => note.map(|note| note.value),
            Err(error) => {
                tracing::warn!(%error, "the stored note of a session cannot be read");
                None
            }
        }
    }
}

/// Renders a session's note.
fn write(session: &LegacyClientSession) -> Result<String, serde_json::Error> {
    let Caller { tenant, principal, actors, client, .. } = Caller::clone(&session.requester.caller);
    serde_json::to_string(&SessionNote {
        tenant,
        actors,
        principal,
        client,
        protocol_version: session.version.to_string(),
        capabilities: RawValue::from_string(session.requester.capabilities.as_json().to_owned())?,
        log_level: session.log_level().map(|level| level.as_str().to_owned()),
        watched: session.watched(),
    })
}

/// Reads a note. `None` if it describes no possible session.
pub(super) fn read(id: &str, text: &str) -> Option<RestoredHttpSession> {
    let note: SessionNote = serde_json::from_str(text).ok()?;
    let version = ProtocolVersion::from_wire(&note.protocol_version);
    let caller = Caller {
        actors: note.actors,
        client: note.client,
        session: Some(id.to_owned()),
        ..Caller::named(&note.tenant, &note.principal)
    };
    Some(RestoredHttpSession {
        caller,
        version: version.filter(|version| *version <= ProtocolVersion::NEWEST_LEGACY)?,
        capabilities: ClientCapabilities::parse(Some(&note.capabilities)),
        log_level: note.log_level.as_deref().and_then(LogLevel::from_wire),
        watched: note.watched,
    })
}

#[cfg(test)]
mod tests {
    use servanda_engine::Requester;

    use super::*;
    use crate::session::SessionLimits;

    const GOLDEN: &str = r#"{"tenant":"local","principal":"local","client":"test 1","protocol_version":"2025-06-18","capabilities":{"elicitation":{},"roots":{}},"log_level":"error","watched":["a:1","a:2"]}"#;

    /// The stored form cannot change silently: a newer version has to read what an older one wrote.
    #[test]
    fn a_session_is_read_back_as_it_was_written() {
        let capabilities = RawValue::from_string(r#"{"roots":{},"elicitation":{}}"#.to_owned()).unwrap();
        let requester = Requester {
            caller: Caller { client: Some("test 1".to_owned()), session: Some("id".to_owned()), ..Caller::local() }
                .into(),
            capabilities: ClientCapabilities::parse(Some(&capabilities)),
            ..Requester::local()
        };
        let limits = SessionLimits { questions_max: 1, watches_max: 2 };
        let session = LegacyClientSession::new(requester, ProtocolVersion::V2025_06_18, Arc::default(), limits);
        session.set_log_level(LogLevel::Error);
        session.prepare_watch("a:2").unwrap();
        session.prepare_watch("a:1").unwrap();
        assert_eq!(write(&session).unwrap(), GOLDEN);

        let read = read("id", GOLDEN).unwrap();
        assert_eq!(read.caller, *session.requester.caller);
        assert_eq!((read.version, read.log_level), (ProtocolVersion::V2025_06_18, Some(LogLevel::Error)));
        assert_eq!(read.capabilities, session.requester.capabilities);
        assert_eq!(read.watched, ["a:1", "a:2"]);
    }

    #[test]
    fn impossible_notes_are_not_read() {
        for text in ["", "{}", "[]", &GOLDEN.replace("2025-06-18", "2026-07-28"), &GOLDEN.replace("2025-06-18", "1")] {
            assert!(read("id", text).is_none(), "{text}");
        }
        assert!(read("id", &GOLDEN.replace("error", "unheard-of")).unwrap().log_level.is_none());
    }
}
