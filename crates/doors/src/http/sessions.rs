//! Legacy sessions: minted by `initialize`, looked up by every later message, ended by DELETE, by idleness, or to make
//! room.
//!
//! A session in use (a request unanswered or a stream open) is never taken away: when there is no room and nobody is
//! idle, the newcomer is turned away.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{dispatch::Peer, in_flight::InFlight, options::HttpOptions};

/// All sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
    opened: Instant,
    count_max: usize,
    idle_ms_max: u64,
    streams_per_session_max: usize,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    client: Option<String>,
    in_flight: Arc<InFlight>,
    /// Changes of the tool list since `initialize`. One stream at a time waits for them, because a message must go out
    /// on one stream only; the next one takes over when it ends.
    pub(super) changes: tokio::sync::Mutex<watch::Receiver<u64>>,
    pub(super) streams: Arc<Semaphore>,
    /// Cancelled when the session ends.
    pub(super) ended: CancellationToken,
    uses: AtomicUsize,
    last_used_ms: AtomicU64,
}

/// A session in use, from lookup until this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    session: Arc<Session>,
    opened: Instant,
}

/// There is no room, and every session is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AllInUse;

impl Sessions {
    pub(super) fn new(options: &HttpOptions) -> Self {
        Self {
            by_id: Mutex::default(),
            opened: Instant::now(),
            count_max: options.sessions_max,
            idle_ms_max: options.session_idle_ms_max,
            streams_per_session_max: options.streams_per_session_max.min(Semaphore::MAX_PERMITS),
        }
    }

    /// Begins a session and returns its id.
    pub(super) fn begin(&self, client: Option<String>, changes: watch::Receiver<u64>) -> Result<String, AllInUse> {
        self.begin_at(self.now_ms(), client, changes)
    }

    fn begin_at(
        &self,
        now_ms: u64,
        client: Option<String>,
        mut changes: watch::Receiver<u64>,
    ) -> Result<String, AllInUse> {
        let mut sessions = self.sessions();
        if sessions.len() >= self.count_max {
            sessions.retain(|_, session| !self.retire_if_expired(session, now_ms));
        }
        if sessions.len() >= self.count_max {
            let idle = sessions.values().filter(|session| session.uses.load(Ordering::Relaxed) == 0);
            let oldest = idle.min_by_key(|session| session.last_used_ms.load(Ordering::Relaxed)).ok_or(AllInUse)?;
            let oldest = oldest.id.clone();
            sessions.remove(&oldest).ok_or(AllInUse)?.end();
            tracing::info!("the session unused for longest made room for a new one");
        }
        changes.mark_unchanged();
        let id = Uuid::new_v4().to_string();
        let session = Session {
            id: id.clone(),
            client,
            in_flight: Arc::default(),
            changes: tokio::sync::Mutex::new(changes),
            streams: Arc::new(Semaphore::new(self.streams_per_session_max)),
            ended: CancellationToken::new(),
            uses: AtomicUsize::new(0),
            last_used_ms: AtomicU64::new(now_ms),
        };
        sessions.insert(id.clone(), Arc::new(session));
        Ok(id)
    }

    /// Takes a session into use, if there is one of that id.
    pub(super) fn lease(&self, id: &str) -> Option<Lease> {
        self.lease_at(self.now_ms(), id)
    }

    fn lease_at(&self, now_ms: u64, id: &str) -> Option<Lease> {
        let mut sessions = self.sessions();
        let session = Arc::clone(sessions.get(id)?);
        if self.retire_if_expired(&session, now_ms) {
            sessions.remove(id);
            return None;
        }
        // INVARIANT: uses only grow under the lock, so that a session found idle under it stays idle until removed.
        session.uses.fetch_add(1, Ordering::Relaxed);
        Some(Lease { session, opened: self.opened })
    }

    /// Ends a session, and cancels its requests and streams.
    pub(super) fn end(&self, id: &str) {
        let session = self.sessions().remove(id);
        if let Some(session) = session {
            session.end();
        }
    }

    fn retire_if_expired(&self, session: &Session, now_ms: u64) -> bool {
        let idle_ms = now_ms.saturating_sub(session.last_used_ms.load(Ordering::Relaxed));
        let expired = session.uses.load(Ordering::Relaxed) == 0 && idle_ms >= self.idle_ms_max;
        if expired {
            session.end();
        }
        expired
    }

    fn now_ms(&self) -> u64 {
        elapsed_ms(self.opened)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        // Every critical section leaves a whole map: no panic can leave it half-changed.
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    pub(super) fn peer(&self) -> Peer {
        Peer {
            client: self.client.clone(),
            session: Some(self.id.clone()),
            in_flight: Some(Arc::clone(&self.in_flight)),
        }
    }

    pub(super) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    fn end(&self) {
        self.ended.cancel();
        self.in_flight.cancel_all();
    }
}

impl Lease {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.session.last_used_ms.store(elapsed_ms(self.opened), Ordering::Relaxed);
        self.session.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
