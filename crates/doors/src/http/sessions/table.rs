//! The table of legacy sessions. Every message looks its session up; DELETE, idleness, or the need for room ends a
//! session.
//!
//! An idle session ends after its maximum idle time. When there is no room, the longest idle session ends, if it was
//! idle long enough. A session in use (a request unanswered or a stream open), or used a moment ago, is never ended for
//! another: the new session is refused instead. One principal may hold only a share of the sessions. Deliberately not
//! here: what is stored of a session (`session_notes`).

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use servanda_authority::AuthenticatedCaller;
use servanda_contract::Caller;
use servanda_engine::Requester;
use servanda_mcp::ProtocolVersion;
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::options::HttpOptions,
    byte_budget::SessionByteBudget,
    counts::HttpSessionCounts,
    replay_buffer::{ReplayBuffer, ReplayLimits},
};
use crate::{
    request::{ClientDisconnectPolicy, DoorRequestContext},
    session::{LegacyClientSession, SessionLimits},
    slots,
};

/// How often the stored note of a session in use is renewed.
pub(super) const NOTE_EVERY_MS: u64 = 5 * 60 * 1000;
/// The first revision whose clients can read an event without data, which opens a stream.
const PRIMED_FROM: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// All sessions.
#[derive(Debug)]
pub(in crate::http) struct HttpSessionTable {
    table: Mutex<HttpSessionEntries>,
    opened: Instant,
    limits: HttpSessionLimits,
    /// The bytes that all of them keep for streams.
    budget: Arc<SessionByteBudget>,
}

#[derive(Debug, Default)]
struct HttpSessionEntries {
    sessions: HashMap<String, Arc<HttpSession>>,
    /// How many of them each tenant and each user has.
    counts: HttpSessionCounts,
    /// Ended sessions whose notes are not deleted yet: they must not be restored from them.
    ending: HashSet<String>,
}

/// How many sessions there may be, and how much each may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpSessionLimits {
    count_max: usize,
    pub(super) idle_ms_max: u64,
    room_idle_ms_min: u64,
    streams_per_session_max: usize,
    replay: ReplayLimits,
    pub(super) session: SessionLimits,
}

/// One session, and what carries its messages.
#[derive(Debug)]
pub(in crate::http) struct HttpSession {
    pub(super) id: String,
    pub(in crate::http) session: Arc<LegacyClientSession>,
    pub(in crate::http) replay_buffer: ReplayBuffer,
    /// Places for GET streams.
    pub(in crate::http) streams: Arc<Semaphore>,
    /// Signals that a question waits for a stream: a request that may be answered by a stream should open one.
    pub(in crate::http) stream_wanted: Notify,
    /// Signals that the session's note is out of date.
    pub(super) note_due: Notify,
    /// Held while the session's note is written or deleted.
    pub(super) note_lock: tokio::sync::Mutex<()>,
    /// Cancelled when the session ends.
    pub(in crate::http) ended: CancellationToken,
    uses: AtomicUsize,
    last_used_ms: AtomicU64,
    noted_ms: AtomicU64,
}

/// A session in use, from lookup until this is dropped.
#[derive(Debug)]
pub(in crate::http) struct HttpSessionLease {
    session: Arc<HttpSession>,
    opened: Instant,
}

/// What is found under an id.
#[derive(Debug)]
pub(super) enum HttpSessionLookup {
    Active(HttpSessionLease),
    /// Nothing; there may be a stored note of it.
    Nothing,
    /// A session that has ended.
    Ended,
}

/// Why a session is not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpSessionAddError {
    /// There is no room, and every session is in use or was a moment ago.
    AllInUse,
    /// Its principal or tenant holds its full share of sessions, and all of them are in use or were a moment ago.
    OwnInUse,
    /// It has ended.
    Ended,
}

impl HttpSessionTable {
    pub(in crate::http) fn new(options: &HttpOptions) -> Self {
        let replay_buffer = ReplayLimits {
            events_max: options.replay_events_max,
            bytes_max: options.replay_bytes_max,
            streams_max: options.replay_streams_max,
            keep_ms: options.replay_ms_max,
            backlog_max: options.backlog_max,
            backlog_bytes_max: options.backlog_bytes_max,
            queue_bytes_max: options.queue_bytes_max,
            question_wait_ms: options.question_wait_ms_max,
            retry_ms: options.retry_ms,
        };
        let session = SessionLimits {
            questions_max: options.questions_per_session_max,
            watches_max: options.watches_per_session_max,
        };
        let limits = HttpSessionLimits {
            count_max: options.sessions_max,
            idle_ms_max: options.session_idle_ms_max,
            room_idle_ms_min: options.session_room_idle_ms_min,
            streams_per_session_max: options.streams_per_session_max.min(Semaphore::MAX_PERMITS),
            replay: replay_buffer,
            session,
        };
        let budget = Arc::new(SessionByteBudget::new(options.session_bytes_max));
        Self { table: Mutex::default(), opened: Instant::now(), limits, budget }
    }

    pub(super) fn limits(&self) -> &HttpSessionLimits {
        &self.limits
    }

    /// Adds a session, or finds the existing one with that id. The flag says whether it was added.
    pub(super) fn add(
        &self,
        id: &str,
        session: LegacyClientSession,
    ) -> Result<(HttpSessionLease, bool), HttpSessionAddError> {
        self.add_at(self.now_ms(), id, session)
    }

    fn add_at(
        &self,
        now_ms: u64,
        id: &str,
        session: LegacyClientSession,
    ) -> Result<(HttpSessionLease, bool), HttpSessionAddError> {
        let mut table = self.table();
        if table.ending.contains(id) {
            return Err(HttpSessionAddError::Ended);
        }
        if let Some(there) = table.sessions.get(id) {
            return Ok((self.new_lease(there), false));
        }
        self.make_room(&mut table, now_ms, &session.requester)?;
        table.counts.add(&session.requester.caller);
        let added = Arc::new(HttpSession {
            id: id.to_owned(),
            replay_buffer: ReplayBuffer::new(
                self.limits.replay,
                session.version >= PRIMED_FROM,
                Arc::clone(&self.budget),
            ),
            session: Arc::new(session),
            streams: Arc::new(Semaphore::new(self.limits.streams_per_session_max)),
            stream_wanted: Notify::new(),
            note_due: Notify::new(),
            note_lock: tokio::sync::Mutex::default(),
            ended: CancellationToken::new(),
            uses: AtomicUsize::new(0),
            last_used_ms: AtomicU64::new(now_ms),
            noted_ms: AtomicU64::new(now_ms),
        });
        table.sessions.insert(id.to_owned(), Arc::clone(&added));
        Ok((self.new_lease(&added), true))
    }

    /// Takes a session into use, if one with that id exists and belongs to that caller.
    pub(super) fn lease(&self, id: &str, authority: &AuthenticatedCaller) -> HttpSessionLookup {
        self.lease_at(self.now_ms(), id, |owner| authority.is_same_party(owner))
    }

    fn lease_at(&self, now_ms: u64, id: &str, is_owned_by: impl FnOnce(&Caller) -> bool) -> HttpSessionLookup {
        let mut table = self.table();
        let Some(session) = table.sessions.get(id).map(Arc::clone) else {
            return if table.ending.contains(id) { HttpSessionLookup::Ended } else { HttpSessionLookup::Nothing };
        };
        if !is_owned_by(&session.session.requester.caller) {
            return HttpSessionLookup::Nothing;
        }
        if self.is_expired(&session, now_ms) {
            table.end(id);
            return HttpSessionLookup::Ended;
        }
        let noted_ms = session.noted_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(noted_ms) >= NOTE_EVERY_MS {
            session.noted_ms.store(now_ms, Ordering::Relaxed);
            session.note_due.notify_one();
        }
        HttpSessionLookup::Active(self.new_lease(&session))
    }

    /// Ends a session, and cancels its requests and streams.
    pub(super) fn end(&self, id: &str) {
        self.table().end(id);
    }

    /// Ends a session that has been idle for too long. Returns whether it has.
    pub(super) fn end_if_expired(&self, session: &HttpSession) -> bool {
        let mut table = self.table();
        let expired = self.is_expired(session, self.now_ms());
        if expired {
            table.end(&session.id);
        }
        expired
    }

    /// The note of an ended session is deleted, so its id need not be remembered.
    pub(super) fn forget(&self, id: &str) {
        self.table().ending.remove(id);
    }

    /// Milliseconds since the table was made.
    pub(super) fn now_ms(&self) -> u64 {
        elapsed_ms(self.opened)
    }

    /// The lock must be held.
    fn new_lease(&self, session: &Arc<HttpSession>) -> HttpSessionLease {
        // INVARIANT: uses only grow under the lock, so that a session found idle under it stays idle until removed.
        session.uses.fetch_add(1, Ordering::Relaxed);
        HttpSessionLease { session: Arc::clone(session), opened: self.opened }
    }

    /// Makes room for a new session, if possible. Idle sessions of its own principal go before those of others.
    fn make_room(
        &self,
        table: &mut HttpSessionEntries,
        now_ms: u64,
        newcomer: &Requester,
    ) -> Result<(), HttpSessionAddError> {
        let is_own = |session: &HttpSession| session.session.requester.caller.is_same_user(&newcomer.caller);
        let may_go = |session: &HttpSession| session.idle_ms(now_ms) >= self.limits.room_idle_ms_min;
        let own = table.counts.of_user(&newcomer.caller);
        if slots::principal_share(self.limits.count_max, &newcomer.authority).is_some_and(|share| own >= share) {
            let made = table.end_longest_idle(|session| is_own(session) && may_go(session));
            return made.then_some(()).ok_or(HttpSessionAddError::OwnInUse);
        }
        let is_of_tenant = |session: &HttpSession| session.session.requester.caller.tenant == newcomer.caller.tenant;
        let of_tenant = table.counts.of_tenant(&newcomer.caller);
        let tenants_share = slots::tenant_share(self.limits.count_max, &newcomer.authority);
        if tenants_share.is_some_and(|share| of_tenant >= share) {
            let made = table.end_longest_idle(|session| is_of_tenant(session) && may_go(session));
            return made.then_some(()).ok_or(HttpSessionAddError::OwnInUse);
        }
        if table.sessions.len() < self.limits.count_max {
            return Ok(());
        }
        let expired = table.sessions.values().filter(|session| self.is_expired(session, now_ms));
        let expired: Vec<String> = expired.map(|session| session.id.clone()).collect();
        for id in expired {
            table.end(&id);
        }
        if table.sessions.len() < self.limits.count_max {
            return Ok(());
        }
        let made =
            table.end_longest_idle(|session| is_own(session) && may_go(session)) || table.end_longest_idle(may_go);
        made.then_some(()).ok_or(HttpSessionAddError::AllInUse)
    }

    fn is_expired(&self, session: &HttpSession, now_ms: u64) -> bool {
        session.is_idle() && session.idle_ms(now_ms) >= self.limits.idle_ms_max
    }

    fn table(&self) -> MutexGuard<'_, HttpSessionEntries> {
        // Every critical section leaves a whole table: no panic can leave it half-changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpSessionEntries {
    /// Ends the longest idle of these sessions. False if all of them are in use.
    fn end_longest_idle(&mut self, of_these: impl Fn(&HttpSession) -> bool) -> bool {
        let idle = self.sessions.values().filter(|session| of_these(session) && session.is_idle());
        let oldest = idle.min_by_key(|session| session.last_used_ms.load(Ordering::Relaxed));
        let Some(oldest) = oldest.map(|session| session.id.clone()) else { return false };
        self.end(&oldest);
        tracing::info!("the longest idle session was ended to make room for a new one");
        true
    }

    fn end(&mut self, id: &str) {
        if let Some(session) = self.sessions.remove(id) {
            self.counts.remove(&session.session.requester.caller);
            self.ending.insert(session.id.clone());
            session.ended.cancel();
            session.session.end();
        }
    }
}

impl HttpSessionLimits {
    /// The shortest expiry time.
    pub(super) fn shortest_ms(&self) -> u64 {
        self.idle_ms_max.min(self.replay.keep_ms).min(self.replay.question_wait_ms)
    }
}

impl HttpSession {
    /// The context of a request of this session: the session's client, with the rights of the credential that came with
    /// this request.
    pub(in crate::http) fn request_context(&self, authority: &Arc<AuthenticatedCaller>) -> DoorRequestContext {
        let mut requester = self.session.requester.clone();
        let credential = authority.recorded_credential();
        if requester.caller.credential != credential {
            Arc::make_mut(&mut requester.caller).credential = credential;
        }
        requester.authority = Arc::clone(authority);
        DoorRequestContext {
            requester,
            session: Some(Arc::clone(&self.session)),
            in_flight: Some(Arc::clone(&self.session.in_flight)),
            disconnect_policy: ClientDisconnectPolicy::KeepRunning,
        }
    }

    /// How long ago it was last used, if it is idle.
    fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.last_used_ms.load(Ordering::Relaxed))
    }

    /// Whether it is not in use. A request whose client went away still counts as use.
    fn is_idle(&self) -> bool {
        self.uses.load(Ordering::Relaxed) == 0 && self.session.in_flight.is_empty()
    }
}

impl HttpSessionLease {
    pub(in crate::http) fn session(&self) -> &Arc<HttpSession> {
        &self.session
    }

    /// Another use of the same session.
    pub(in crate::http) fn clone_lease(&self) -> Self {
        // Upholds: it is in use already, so it is not found idle meanwhile.
        self.session.uses.fetch_add(1, Ordering::Relaxed);
        Self { session: Arc::clone(&self.session), opened: self.opened }
    }

    /// Milliseconds since the table was made.
    pub(in crate::http) fn now_ms(&self) -> u64 {
        elapsed_ms(self.opened)
    }
}

impl Drop for HttpSessionLease {
    fn drop(&mut self) {
        self.session.last_used_ms.store(elapsed_ms(self.opened), Ordering::Relaxed);
        self.session.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
