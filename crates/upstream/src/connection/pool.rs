//! The connections to a legacy server that belong to one requester each, because the server learns at the handshake what the client can be
//! asked, and does not say for whom its questions are.
//!
//! A requester that takes questions outside its requests has one connection. A requester that does not (a client without a session) would
//! share it with other clients of the same affinity, and a question could be for any of them. So each of its requests takes a connection
//! that none of the others is using, as long as the limits allow another one, and shares one after that. A question that could be for
//! several clients is declined, never guessed.
//!
//! At a server of both eras, the pool holds the legacy clients' connections; clients that cannot be asked anything share one.
//!
//! The number is bounded for each principal, for each tenant and in all. When a bound is reached, the connection within it that has been
//! idle longest is ended. Idle connections end by themselves. In local mode all callers are one principal, so each affinity is bounded
//! instead.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use servanda_mcp::Era;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{UpstreamConnection, link::Link};
use crate::{PerformFailure, RequestUser, UpstreamRequester, shared::SharedContext, shares};

/// The connections.
pub(crate) struct ConnectionPool {
    context: Arc<SharedContext>,
    /// Ends all of them.
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those of each requester by their numbers. No requester without a connection is in it.
    connections: HashMap<UpstreamRequester, BTreeMap<usize, PooledConnection>>,
    /// How many are being ended. Their processes still exist.
    ending: usize,
}

/// One of a requester's connections.
#[derive(Debug, Clone)]
struct PoolKey {
    requester: UpstreamRequester,
    number: usize,
}

/// A requester, the number of one of its connections, and that connection.
type PoolEntry<'a> = (&'a UpstreamRequester, usize, &'a PooledConnection);

/// What a requester without connections has.
static NO_CONNECTIONS: BTreeMap<usize, PooledConnection> = BTreeMap::new();

/// Whether two requesters count against one limit.
type SameLimitCheck = fn(&UpstreamRequester, &UpstreamRequester) -> bool;

/// Who uses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeasePurpose {
    /// A client, which the server may ask something.
    Client,
    /// The gateway itself.
    Gateway,
}

/// One requester's connection.
struct PooledConnection {
    connection: Arc<UpstreamConnection>,
    uses: Arc<ConnectionUses>,
}

/// How many requests use a connection. A change wakes no task, because every call changes it twice.
#[derive(Debug)]
struct ConnectionUses(Mutex<UseCounts>);

#[derive(Debug, Clone, Copy)]
struct UseCounts {
    count: usize,
    /// How many of them belong to clients.
    clients: usize,
    /// Since when these numbers are true.
    since: Instant,
}

/// The use of a connection by one request.
pub(crate) struct ConnectionLease {
    pub(crate) connection: Arc<UpstreamConnection>,
    uses: Arc<ConnectionUses>,
    purpose: LeasePurpose,
}

impl ConnectionPool {
    pub(crate) fn new(context: Arc<SharedContext>, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { context, stop, state: Mutex::default() })
    }

    /// Leases one of the requester's connections. Fails if a limit is reached and every connection within it is in use.
    pub(crate) fn lease(
        self: &Arc<Self>,
        requester: &UpstreamRequester,
        purpose: LeasePurpose,
    ) -> Result<ConnectionLease, PerformFailure> {
        let requester = &self.pooled_as(requester);
        let mut state = self.lock();
        let lanes = state.connections.get(requester).unwrap_or(&NO_CONNECTIONS);
        let asks = self.context.asks_beside_requests.load(Ordering::Relaxed);
        // When only judged connections take calls, callers share the judged one, because a new one would take no calls. A question that
        // could be for several of them is declined.
        let alone = purpose == LeasePurpose::Client && !self.context.is_guarded() && self.must_be_alone(requester);
        let fit = lanes.values().find(|own| !alone || own.is_free(asks)).or_else(|| {
            let share = shares::principal_share(self.context.spec.limits.connections_max);
            let may_grow = state.count(|other| is_same_principal(other, requester)) < share.div_ceil(2);
            let crowded = lanes.values().min_by_key(|own| (own.uses.get().clients, own.has_abandoned_request()));
            crowded.filter(|_| !(may_grow && state.count(|_| true) < self.context.spec.limits.connections_max))
        });
        if let Some(own) = fit {
            return Ok(own.lease(purpose));
        }
        let number = (0..lanes.len()).find(|number| !lanes.contains_key(number)).unwrap_or(lanes.len());
        self.make_room(&mut state, requester)?;
        let lane = PoolKey { requester: requester.clone(), number };
        let stop = self.stop.child_token();
        let connection = Arc::new(UpstreamConnection::new(&self.context, Some(requester.clone()), stop.clone()));
        let own = PooledConnection { connection, uses: Arc::new(ConnectionUses::new()) };
        let lease = own.lease(purpose);
        let keeping = end_when_idle(Arc::downgrade(self), lane.clone(), self.idle_max());
        self.context.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keeping => {}
            }
        });
        state.connections.entry(lane.requester).or_default().insert(lane.number, own);
        Ok(lease)
    }

    /// The requester's first connection, if there is one.
    pub(crate) fn get(&self, requester: &UpstreamRequester) -> Option<Arc<UpstreamConnection>> {
        let state = self.lock();
        let lanes = state.connections.get(&self.pooled_as(requester))?;
        lanes.values().next().map(|own| Arc::clone(&own.connection))
    }

    /// The requester under which connections are kept: they are legacy ones whatever era the client has, unless every user has their own.
    fn pooled_as(&self, requester: &UpstreamRequester) -> UpstreamRequester {
        let era = if self.context.is_personal() { requester.era } else { Era::Legacy };
        UpstreamRequester { era, ..requester.clone() }
    }

    /// Ends the connections of an affinity.
    pub(crate) fn release(self: &Arc<Self>, affinity: &str) {
        let mut state = self.lock();
        let released: Vec<PoolKey> =
            state.iter().filter(|(requester, ..)| &*requester.affinity == affinity).map(PoolKey::from_entry).collect();
        for lane in released {
            self.end(&mut state, &lane);
        }
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().count(|_| true)
    }

    /// Any ready connection.
    pub(crate) fn any_ready(&self) -> Option<Arc<Link>> {
        self.lock().iter().find_map(|(_, _, own)| own.connection.ready())
    }

    /// Whether a question could be mistaken for another client's. If so, a request shares its connection only when it must.
    fn must_be_alone(&self, requester: &UpstreamRequester) -> bool {
        requester.capabilities.answers_anything()
            && self.context.may_ask_unclearly()
            && self.context.attached.get(&requester.affinity).is_none()
    }

    fn make_room(self: &Arc<Self>, state: &mut State, requester: &UpstreamRequester) -> Result<(), PerformFailure> {
        let connections_max = self.context.spec.limits.connections_max;
        // A requester whose share is full makes room among its own connections and takes nothing from the others.
        let bounds: [(SameLimitCheck, usize); 3] = [
            (is_same_principal, shares::principal_share(connections_max)),
            (is_same_tenant, shares::tenant_share(connections_max)),
            (|_, _| true, connections_max),
        ];
        let is_full = |(sharing, max): &(SameLimitCheck, usize)| state.count(|other| sharing(other, requester)) >= *max;
        let Some((sharing, in_flight_max)) = bounds.into_iter().find(is_full) else { return Ok(()) };
        let evictable = state.iter().filter(|(other, ..)| sharing(other, requester));
        let idle = evictable.filter_map(|entry| Some((entry.2.idle_since()?, entry)));
        let longest_idle = idle.min_by_key(|(since, _)| *since).map(|(_, entry)| PoolKey::from_entry(entry));
        match longest_idle {
            // A requester that opens and closes connections faster than servers end must not start an unlimited number of servers.
            Some(lane) if state.ending < connections_max => {
                self.end(state, &lane);
                Ok(())
            }
            _ => Err(PerformFailure::Busy { in_flight_max }),
        }
    }

    /// Ends a connection that has been unused for the idle time. Returns after how long to look again; none if the connection is gone.
    fn retire(self: &Arc<Self>, lane: &PoolKey, idle_max: Duration) -> Option<Duration> {
        let mut state = self.lock();
        let idle = state.get(lane)?.idle_since().map_or(Duration::ZERO, |since| since.elapsed());
        let left = idle_max.saturating_sub(idle);
        if left.is_zero() {
            self.end(&mut state, lane);
        }
        Some(left).filter(|left| !left.is_zero())
    }

    /// Ends a connection and counts it until it is gone.
    fn end(self: &Arc<Self>, state: &mut State, lane: &PoolKey) {
        let Some(own) = state.remove(lane) else { return };
        own.connection.stop();
        state.ending += 1;
        let pool = Arc::downgrade(self);
        self.context.tasks.spawn(async move {
            own.connection.ended().await;
            if let Some(pool) = pool.upgrade() {
                let mut state = pool.lock();
                state.ending = state.ending.saturating_sub(1);
            }
        });
    }

    fn idle_max(&self) -> Duration {
        Duration::from_millis(self.context.spec.limits.connection_idle_ms_max)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn get(&self, lane: &PoolKey) -> Option<&PooledConnection> {
        self.connections.get(&lane.requester)?.get(&lane.number)
    }

    fn remove(&mut self, lane: &PoolKey) -> Option<PooledConnection> {
        let lanes = self.connections.get_mut(&lane.requester)?;
        let removed = lanes.remove(&lane.number);
        if lanes.is_empty() {
            self.connections.remove(&lane.requester);
        }
        removed
    }

    fn iter(&self) -> impl Iterator<Item = PoolEntry<'_>> {
        self.connections
            .iter()
            .flat_map(|(requester, lanes)| lanes.iter().map(move |(number, own)| (requester, *number, own)))
    }

    /// How many connections these requesters have.
    fn count(&self, are_counted: impl Fn(&UpstreamRequester) -> bool) -> usize {
        let counted = self.connections.iter().filter(|(requester, _)| are_counted(requester));
        counted.map(|(_, lanes)| lanes.len()).sum()
    }
}

impl PoolKey {
    fn from_entry((requester, number, _): PoolEntry<'_>) -> Self {
        Self { requester: requester.clone(), number }
    }
}

/// Whether two requesters count against one principal's limit: they are the same user, in whatever session. In local mode, or without a
/// user, they must have the same affinity.
fn is_same_principal(one: &UpstreamRequester, other: &UpstreamRequester) -> bool {
    match (limited_user(one), limited_user(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.affinity == other.affinity && one.user() == other.user(),
        _ => false,
    }
}

/// Whether two requesters count against one tenant's limit. In local mode there is none.
fn is_same_tenant(one: &UpstreamRequester, other: &UpstreamRequester) -> bool {
    limited_user(one).zip(limited_user(other)).is_some_and(|((one, _), (other, _))| one == other)
}

fn limited_user(requester: &UpstreamRequester) -> Option<(&str, &str)> {
    requester.on_behalf_of.as_ref().and_then(RequestUser::limited_user)
}

impl PooledConnection {
    /// Since when it has been unused; none while it is in use. An open question between requests counts as use.
    fn idle_since(&self) -> Option<Instant> {
        let uses = self.uses.get();
        let asks = self.connection.ready().is_some_and(|link| link.is_asking_client());
        (uses.count == 0 && !asks).then_some(uses.since)
    }

    /// Whether no client is using it. If the server is known to ask questions, it must not be working on an abandoned request either.
    /// Otherwise that does not matter, and reuse is better because the server may remember earlier calls.
    fn is_free(&self, asks: bool) -> bool {
        self.uses.get().clients == 0 && !(asks && self.has_abandoned_request())
    }

    fn has_abandoned_request(&self) -> bool {
        self.connection.ready().is_some_and(|link| link.has_abandoned_request())
    }

    fn lease(&self, purpose: LeasePurpose) -> ConnectionLease {
        self.uses.begin(purpose);
        ConnectionLease { connection: Arc::clone(&self.connection), uses: Arc::clone(&self.uses), purpose }
    }
}

impl ConnectionUses {
    fn new() -> Self {
        Self(Mutex::new(UseCounts { count: 0, clients: 0, since: Instant::now() }))
    }

    fn get(&self) -> UseCounts {
        *self.lock()
    }

    fn begin(&self, purpose: LeasePurpose) {
        let mut uses = self.lock();
        let (count, clients) = (uses.count + 1, uses.clients + purpose.clients());
        *uses = UseCounts { count, clients, since: Instant::now() };
    }

    fn end(&self, purpose: LeasePurpose) {
        let mut uses = self.lock();
        let (count, clients) = (uses.count.saturating_sub(1), uses.clients.saturating_sub(purpose.clients()));
        *uses = UseCounts { count, clients, since: Instant::now() };
    }

    fn lock(&self) -> MutexGuard<'_, UseCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeasePurpose {
    /// How many clients such a use is.
    fn clients(self) -> usize {
        usize::from(self == Self::Client)
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        self.uses.end(self.purpose);
    }
}

/// Ends a connection when it has been idle for too long. Returns when the connection is no longer in the pool.
async fn end_when_idle(pool: Weak<ConnectionPool>, lane: PoolKey, idle_max: Duration) {
    let mut left = idle_max;
    loop {
        tokio::time::sleep(left).await;
        match pool.upgrade().and_then(|pool| pool.retire(&lane, idle_max)) {
            Some(again) => left = again,
            None => return,
        }
    }
}

impl fmt::Debug for ConnectionPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter
            .debug_struct("ConnectionPool")
            .field("own", &state.connections.len())
            .field("ending", &state.ending)
            .finish()
    }
}

impl fmt::Debug for ConnectionLease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ConnectionLease").finish_non_exhaustive()
    }
}
