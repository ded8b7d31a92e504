//! What the gateway keeps about requesters between their requests: where a session receives what servers say, and how much of the servers'
//! logs it wants.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::value::RawValue;
use servanda_mcp::{Era, LogLevel, fields::method};
use servanda_upstream::{RequestOptions, ServerMessageSink, UpstreamInquiry, UpstreamRequester};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Bridge,
    message_translator::{MessageSubscriber, MessageTranslator},
    session_forwarder::SessionForwarder,
};
use crate::{
    client::{ClientMessage, ClientMessageSink, Requester},
    world::{UpstreamMember, WorldSnapshot},
};

/// The most messages that wait for a slow session.
const SESSION_MESSAGES_MAX: usize = 64;
/// The most sessions that are remembered; doors allow fewer.
const SESSIONS_MAX: usize = 65_536;
/// The most connections whose log level is remembered. Beyond that number all levels are forgotten, and the servers are told again.
const TOLD_MAX: usize = 65_536;

/// All sessions, and the log levels that servers were told.
#[derive(Debug, Default)]
pub(crate) struct ClientSessions {
    sessions: Mutex<HashMap<Arc<str>, ClientSession>>,
    /// How much a legacy server was told to log for an affinity, and on which connection: the next connection knows nothing of it.
    sent_levels: Mutex<HashMap<UpstreamAffinity, (LogLevel, Option<u64>)>>,
}

/// An upstream and an affinity.
type UpstreamAffinity = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct ClientSession {
    sink: Option<ClientMessageSink>,
    level: Option<LogLevel>,
}

impl ClientSessions {
    /// Begins to receive what servers say to an affinity between its requests.
    pub(crate) fn subscribe(
        &self,
        affinity: &str,
        bridge: &Bridge,
        snapshot: &WorldSnapshot,
    ) -> mpsc::Receiver<ClientMessage> {
        let (sink, messages) = mpsc::channel(SESSION_MESSAGES_MAX);
        attach(bridge, snapshot, &Arc::from(affinity), &sink);
        self.change(affinity, |session| session.sink = Some(sink));
        messages
    }

    /// Attaches all subscribed sessions to the servers of another world.
    pub(crate) fn attach_all(&self, bridge: &Bridge, snapshot: &WorldSnapshot) {
        let sessions = locked(&self.sessions);
        let attending = sessions.iter().filter_map(|(affinity, session)| Some((affinity, session.sink.as_ref()?)));
        for (affinity, sink) in attending {
            attach(bridge, snapshot, affinity, sink);
        }
    }

    /// Drops everything that is kept for an affinity.
    pub(crate) fn end(&self, affinity: &str, snapshot: &WorldSnapshot) {
        locked(&self.sessions).remove(affinity);
        locked(&self.sent_levels).retain(|(_, told), _| told.as_ref() != affinity);
        for member in snapshot.members() {
            member.server.release(affinity);
        }
    }

    /// Remembers how much of the log a session wants.
    pub(crate) fn set_level(&self, affinity: &str, level: LogLevel) {
        self.change(affinity, |session| session.level = Some(level));
    }

    /// How much of the log a request wants: as the request says, or as its session says.
    pub(crate) fn level(&self, requester: &Requester, of_request: Option<&str>) -> Option<LogLevel> {
        match requester.era {
            Era::Modern => of_request.and_then(LogLevel::from_wire),
            Era::Legacy => locked(&self.sessions).get(&requester.affinity)?.level,
        }
    }

    /// Tells a legacy server how much to log for this upstream requester, if the server logs and does not know yet. If the server cannot be
    /// told, it logs less or more than is wanted; nothing fails.
    pub(crate) async fn send_level(
        &self,
        member: &UpstreamMember,
        upstream_requester: &UpstreamRequester,
        level: Option<LogLevel>,
        deadline: Instant,
    ) {
        let Some(level) = level else { return };
        let key = (Arc::clone(&member.id), Arc::clone(&upstream_requester.affinity));
        // On a shared connection, the server logs as much as any requester wants, and each requester receives its part.
        let shared = !upstream_requester.capabilities.answers_anything();
        let edition = member.server.edition(upstream_requester);
        let told = locked(&self.sent_levels).get(&key).filter(|(_, on)| *on == edition).map(|(level, _)| *level);
        if told.is_some_and(|told| told == level || (shared && told < level)) {
            return;
        }
        let legacy = match member.offers_to(upstream_requester, "logging", deadline).await {
            Ok(offer) => offer.is_some_and(|offer| offer.era == Era::Legacy),
            Err(_) => return,
        };
        if legacy {
            let Ok(word) = RawValue::from_string(format!("\"{}\"", level.as_str())) else { return };
            let params = vec![("level".to_owned(), word)];
            let question = UpstreamInquiry { method: method::LOGGING_SET_LEVEL, name: None, params };
            let delivery =
                RequestOptions { requester: upstream_requester.clone(), ..RequestOptions::for_gateway(deadline) };
            if let Err(error) = member.server.ask(question, delivery).await {
                tracing::debug!(upstream = %member.id, %error, "the server could not be told how much to log");
                return;
            }
        }
        let mut told = locked(&self.sent_levels);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(key, (level, member.server.edition(upstream_requester)));
    }

    fn change(&self, affinity: &str, change: impl FnOnce(&mut ClientSession)) {
        let mut sessions = locked(&self.sessions);
        if sessions.len() < SESSIONS_MAX || sessions.contains_key(affinity) {
            change(sessions.entry(Arc::from(affinity)).or_default());
        }
    }
}

/// Attaches a session to every server of a world.
fn attach(bridge: &Bridge, snapshot: &WorldSnapshot, affinity: &Arc<str>, sink: &ClientMessageSink) {
    for member in snapshot.members() {
        let session_forwarder = SessionForwarder {
            subscriber: MessageSubscriber { sink: Some(sink.clone()), level: None },
            // Only legacy sessions receive messages outside of their requests.
            message_translator: MessageTranslator::new(bridge, member, Era::Legacy, affinity),
            rules: snapshot.question_rules_outside_calls(member).asking(affinity, &bridge.elicitations),
        };
        let session_forwarder: Arc<dyn ServerMessageSink> = Arc::new(session_forwarder);
        member.server.attach(affinity, session_forwarder);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
