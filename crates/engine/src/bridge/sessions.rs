//! What is kept about guests between their requests: where those of a session are told what servers say, and how much of
//! the servers' logs they want.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::value::RawValue;
use servanda_mcp::{Era, LogLevel, fields::method};
use servanda_upstream::{Bystander, Counterpart, Delivery, Question};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Bridge,
    bystander::SessionBystander,
    outlet::{Hearer, Outlet},
};
use crate::{
    client::{Guest, Remark, RemarkSink},
    world::{Member, Scene},
};

/// Remarks a slow session may be behind with.
const REMARKS_MAX: usize = 64;
/// Sessions that are remembered at once; doors allow fewer.
const SESSIONS_MAX: usize = 65_536;
/// Connections whose log level is remembered. Beyond that number all levels are forgotten, and the servers are told again.
const TOLD_MAX: usize = 65_536;

/// Everything that is kept.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<Arc<str>, Session>>,
    /// How much a legacy server was told to log for an affinity, and on which connection: the next one knows nothing of it.
    told: Mutex<HashMap<Connection, (LogLevel, Option<u64>)>>,
}

/// An upstream and an affinity.
type Connection = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct Session {
    sink: Option<RemarkSink>,
    level: Option<LogLevel>,
}

impl Sessions {
    /// Begins to hear what servers say to an affinity between its requests.
    pub(crate) fn attend(&self, affinity: &str, bridge: &Bridge, scene: &Scene) -> mpsc::Receiver<Remark> {
        let (sink, remarks) = mpsc::channel(REMARKS_MAX);
        attach(bridge, scene, &Arc::from(affinity), &sink);
        self.change(affinity, |session| session.sink = Some(sink));
        remarks
    }

    /// Attaches everybody who attends to the servers of another world.
    pub(crate) fn attach_all(&self, bridge: &Bridge, scene: &Scene) {
        let sessions = locked(&self.sessions);
        let attending = sessions.iter().filter_map(|(affinity, session)| Some((affinity, session.sink.as_ref()?)));
        for (affinity, sink) in attending {
            attach(bridge, scene, affinity, sink);
        }
    }

    /// Lets everything go that is kept for an affinity.
    pub(crate) fn leave(&self, affinity: &str, scene: &Scene) {
        locked(&self.sessions).remove(affinity);
        locked(&self.told).retain(|(_, told), _| told.as_ref() != affinity);
        for member in scene.members() {
            member.server.release(affinity);
        }
    }

    /// Remembers how much of the log a session wants.
    pub(crate) fn want_level(&self, affinity: &str, level: LogLevel) {
        self.change(affinity, |session| session.level = Some(level));
    }

    /// How much of the log a request is to bring: its own wish, or the session's.
    pub(crate) fn level(&self, guest: &Guest, of_request: Option<&str>) -> Option<LogLevel> {
        match guest.era {
            Era::Modern => of_request.and_then(LogLevel::from_wire),
            Era::Legacy => locked(&self.sessions).get(&guest.affinity)?.level,
        }
    }

    /// Tells a legacy server how much to log for this counterpart, if it keeps a log and does not know yet. A server that
    /// cannot be told says less or more than is wanted, which fails nothing.
    pub(crate) async fn tell_level(
        &self,
        member: &Member,
        counterpart: &Counterpart,
        level: Option<LogLevel>,
        deadline: Instant,
    ) {
        let Some(level) = level else { return };
        let key = (Arc::clone(&member.id), Arc::clone(&counterpart.affinity));
        // Where a connection is shared, the server says what the most curious wants, and each hears its part.
        let shared = !counterpart.capabilities.answers_anything();
        let edition = member.server.edition(counterpart);
        let told = locked(&self.told).get(&key).filter(|(_, on)| *on == edition).map(|(level, _)| *level);
        if told.is_some_and(|told| told == level || (shared && told < level)) {
            return;
        }
        let legacy = match member.offers_to(counterpart, "logging", deadline).await {
            Ok(offer) => offer.is_some_and(|offer| offer.era == Era::Legacy),
            Err(_) => return,
        };
        if legacy {
            let Ok(word) = RawValue::from_string(format!("\"{}\"", level.as_str())) else { return };
            let params = vec![("level".to_owned(), word)];
            let question = Question { method: method::LOGGING_SET_LEVEL, name: None, params };
            let delivery = Delivery { counterpart: counterpart.clone(), ..Delivery::until(deadline) };
            if let Err(error) = member.server.ask(question, delivery).await {
                tracing::debug!(upstream = %member.id, %error, "the server could not be told how much to log");
                return;
            }
        }
        let mut told = locked(&self.told);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(key, (level, member.server.edition(counterpart)));
    }

    fn change(&self, affinity: &str, change: impl FnOnce(&mut Session)) {
        let mut sessions = locked(&self.sessions);
        if sessions.len() < SESSIONS_MAX || sessions.contains_key(affinity) {
            change(sessions.entry(Arc::from(affinity)).or_default());
        }
    }
}

/// Attaches a session to every server of a world.
fn attach(bridge: &Bridge, scene: &Scene, affinity: &Arc<str>, sink: &RemarkSink) {
    for member in scene.members() {
        let bystander = SessionBystander {
            hearer: Hearer { sink: Some(sink.clone()), level: None },
            // Only legacy sessions are spoken to outside of their requests.
            outlet: Outlet::new(bridge, member, Era::Legacy, affinity),
            rules: scene.question_rules_outside_calls(member).asking(affinity, &bridge.elicitations),
        };
        let bystander: Arc<dyn Bystander> = Arc::new(bystander);
        member.server.attach(affinity, bystander);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
