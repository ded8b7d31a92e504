//! The connections to a legacy server that belong to one requester each, because the server learns at the handshake what
//! the client can be asked, and does not say for whom its questions are.
//!
//! A requester that takes questions outside its requests has one connection. One that does not (a client without a session)
//! would share it with strangers of the same affinity, and a question could be anybody's; so each of its requests takes a
//! connection that no other of them is using, as long as there may be another, and shares one after that: a question that
//! may be anybody's is declined, never guessed.
//!
//! At a server of both eras the legacy clients have them, and those that cannot be asked anything share one.
//!
//! Bounded, for each principal, for each tenant and in all: when there are too many, the one of them that has been idle longest makes
//! room. Idle ones end by themselves. In local mode all callers are one principal, so that each affinity is bounded there instead.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use servanda_mcp::Era;
use tokio::{sync::watch, time::Instant};
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
    connections: HashMap<PoolKey, PooledConnection>,
    /// How many are on their way out. They still cost what they cost.
    ending: usize,
}

/// One of a requester's connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PoolKey {
    requester: UpstreamRequester,
    number: usize,
}

/// Whether two requesters count against one limit.
type SameLimitCheck = fn(&UpstreamRequester, &UpstreamRequester) -> bool;

/// For whom a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeasePurpose {
    /// For a client: the server may ask it something.
    Client,
    /// For the gateway itself.
    Gateway,
}

/// One requester's connection.
struct PooledConnection {
    connection: Arc<UpstreamConnection>,
    /// How many requests use it, and since when.
    uses: watch::Sender<ConnectionUses>,
}

#[derive(Debug, Clone, Copy)]
struct ConnectionUses {
    count: usize,
    /// How many of them are a client's.
    clients: usize,
    since: Instant,
}

/// The use of a connection by one request.
pub(crate) struct ConnectionLease {
    pub(crate) connection: Arc<UpstreamConnection>,
    uses: watch::Sender<ConnectionUses>,
    purpose: LeasePurpose,
}

impl ConnectionPool {
    pub(crate) fn new(context: Arc<SharedContext>, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { context, stop, state: Mutex::default() })
    }

    /// A connection of that requester, to be used; fails if there are too many and all of them are in use.
    pub(crate) fn lease(
        self: &Arc<Self>,
        requester: &UpstreamRequester,
        purpose: LeasePurpose,
    ) -> Result<ConnectionLease, PerformFailure> {
        let requester = &self.pooled_as(requester);
        let mut state = self.lock();
        let lanes = state.connections_of(requester);
        let asks = self.context.asks_beside_requests.load(Ordering::Relaxed);
        // Where only judged connections take calls, callers share the judged one: a new one would take none. A question that
        // could be anybody's is declined there.
        let alone = purpose == LeasePurpose::Client && !self.context.is_guarded() && self.must_be_alone(requester);
        let fit = lanes.iter().find(|(_, own)| !alone || own.is_free(asks)).or_else(|| {
            let share = shares::principal_share(self.context.spec.limits.connections_max);
            let may_grow = state.count(|other| is_same_principal(other, requester)) < share.div_ceil(2);
            let crowded = lanes.iter().min_by_key(|(_, own)| (own.uses.borrow().clients, own.has_abandoned_request()));
            crowded.filter(|_| !(may_grow && state.connections.len() < self.context.spec.limits.connections_max))
        });
        if let Some((_, own)) = fit {
            return Ok(own.lease(purpose));
        }
        let number =
            (0..lanes.len()).find(|number| lanes.iter().all(|(taken, _)| taken != number)).unwrap_or(lanes.len());
        drop(lanes);
        self.make_room(&mut state, requester)?;
        let lane = PoolKey { requester: requester.clone(), number };
        let connection =
            Arc::new(UpstreamConnection::new(&self.context, Some(requester.clone()), self.stop.child_token()));
        let own = PooledConnection {
            connection,
            uses: watch::Sender::new(ConnectionUses { count: 0, clients: 0, since: Instant::now() }),
        };
        let lease = own.lease(purpose);
        let keeping = end_when_idle(Arc::downgrade(self), lane.clone(), own.uses.subscribe(), self.idle_max());
        let stop = self.stop.clone();
        self.context.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keeping => {}
            }
        });
        state.connections.insert(lane, own);
        Ok(lease)
    }

    /// That requester's first connection, if there is one.
    pub(crate) fn get(&self, requester: &UpstreamRequester) -> Option<Arc<UpstreamConnection>> {
        self.lock().connections_of(&self.pooled_as(requester)).first().map(|(_, own)| Arc::clone(&own.connection))
    }

    /// As whom a requester has connections: they are legacy ones whatever era the client has, unless users do not share any.
    fn pooled_as(&self, requester: &UpstreamRequester) -> UpstreamRequester {
        let era = if self.context.is_personal() { requester.era } else { Era::Legacy };
        UpstreamRequester { era, ..requester.clone() }
    }

    /// Ends the connections of an affinity.
    pub(crate) fn release(self: &Arc<Self>, affinity: &str) {
        let mut state = self.lock();
        let released: Vec<PoolKey> =
            state.connections.keys().filter(|lane| &*lane.requester.affinity == affinity).cloned().collect();
        for lane in released {
            self.end(&mut state, &lane);
        }
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().connections.len()
    }

    /// Any connection that is ready.
    pub(crate) fn any_ready(&self) -> Option<Arc<Link>> {
        self.lock().connections.values().find_map(|own| own.connection.ready())
    }

    /// Whether a question could be taken for another client's: then a request shares its connection only if it must.
    fn must_be_alone(&self, requester: &UpstreamRequester) -> bool {
        requester.capabilities.answers_anything()
            && self.context.may_ask_unclearly()
            && self.context.attached.get(&requester.affinity).is_none()
    }

    fn make_room(self: &Arc<Self>, state: &mut State, requester: &UpstreamRequester) -> Result<(), PerformFailure> {
        let connections_max = self.context.spec.limits.connections_max;
        // Who has a full share makes room among its own, and takes nothing from the others.
        let bounds: [(SameLimitCheck, usize); 3] = [
            (is_same_principal, shares::principal_share(connections_max)),
            (is_same_tenant, shares::tenant_share(connections_max)),
            (|_, _| true, connections_max),
        ];
        let is_full = |(sharing, max): &(SameLimitCheck, usize)| state.count(|other| sharing(other, requester)) >= *max;
        let Some((sharing, in_flight_max)) = bounds.into_iter().find(is_full) else { return Ok(()) };
        let evictable = state.connections.iter().filter(|(lane, _)| sharing(&lane.requester, requester));
        let idle = evictable.filter_map(|(lane, own)| Some((own.idle_since()?, lane)));
        let longest_idle = idle.min_by_key(|(since, _)| *since).map(|(_, lane)| lane.clone());
        match longest_idle {
            // Whoever comes and goes faster than servers end must not start any number of them.
            Some(lane) if state.ending < connections_max => {
                self.end(state, &lane);
                Ok(())
            }
            _ => Err(PerformFailure::Busy { in_flight_max }),
        }
    }

    /// Ends a connection if nobody has used it for as long as one may be idle.
    fn retire(self: &Arc<Self>, lane: &PoolKey, idle_max: Duration) -> bool {
        let mut state = self.lock();
        let Some(own) = state.connections.get(lane) else { return true };
        let retires = own.idle_since().is_some_and(|since| since.elapsed() >= idle_max);
        if retires {
            self.end(&mut state, lane);
        }
        retires
    }

    /// Ends a connection and counts it until it is gone.
    fn end(self: &Arc<Self>, state: &mut State, lane: &PoolKey) {
        let Some(own) = state.connections.remove(lane) else { return };
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
    /// The connections of a requester, in order.
    fn connections_of(&self, requester: &UpstreamRequester) -> Vec<(usize, &PooledConnection)> {
        let of = self.connections.iter().filter(|(lane, _)| lane.requester == *requester);
        let mut lanes: Vec<(usize, &PooledConnection)> = of.map(|(lane, own)| (lane.number, own)).collect();
        lanes.sort_unstable_by_key(|(number, _)| *number);
        lanes
    }

    /// How many connections such requesters have.
    fn count(&self, are_counted: impl Fn(&UpstreamRequester) -> bool) -> usize {
        self.connections.keys().filter(|lane| are_counted(&lane.requester)).count()
    }
}

/// Whether two count against one principal's limit: one user, whatever its sessions. Where all are one user, or none, it is one affinity.
fn is_same_principal(one: &UpstreamRequester, other: &UpstreamRequester) -> bool {
    match (limited_user(one), limited_user(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.affinity == other.affinity && one.user() == other.user(),
        _ => false,
    }
}

/// Whether two count against one tenant's limit. Where all are one user, there is none.
fn is_same_tenant(one: &UpstreamRequester, other: &UpstreamRequester) -> bool {
    limited_user(one).zip(limited_user(other)).is_some_and(|((one, _), (other, _))| one == other)
}

fn limited_user(requester: &UpstreamRequester) -> Option<(&str, &str)> {
    requester.on_behalf_of.as_ref().and_then(RequestUser::limited_user)
}

impl PooledConnection {
    /// Since when nobody has used it; none while somebody does. A question between requests is a use.
    fn idle_since(&self) -> Option<Instant> {
        let uses = *self.uses.borrow();
        let asks = self.connection.ready().is_some_and(|link| link.is_asking_client());
        (uses.count == 0 && !asks).then_some(uses.since)
    }

    /// Whether no client is using it. Where the server is known to ask, it must not be at something either that a client
    /// gave up; elsewhere that does not matter, and what the server remembers between calls does.
    fn is_free(&self, asks: bool) -> bool {
        self.uses.borrow().clients == 0 && !(asks && self.has_abandoned_request())
    }

    fn has_abandoned_request(&self) -> bool {
        self.connection.ready().is_some_and(|link| link.has_abandoned_request())
    }

    fn lease(&self, purpose: LeasePurpose) -> ConnectionLease {
        let clients = usize::from(purpose == LeasePurpose::Client);
        self.uses.send_modify(|uses| {
            *uses = ConnectionUses { count: uses.count + 1, clients: uses.clients + clients, since: Instant::now() };
        });
        ConnectionLease { connection: Arc::clone(&self.connection), uses: self.uses.clone(), purpose }
    }
}

impl Drop for ConnectionLease {
    fn drop(&mut self) {
        let clients = usize::from(self.purpose == LeasePurpose::Client);
        self.uses.send_modify(|uses| {
            let (count, clients) = (uses.count.saturating_sub(1), uses.clients.saturating_sub(clients));
            *uses = ConnectionUses { count, clients, since: Instant::now() };
        });
    }
}

/// Waits until a connection has been idle for too long, and ends it. Ends when the connection is no longer in the pool.
async fn end_when_idle(
    pool: Weak<ConnectionPool>,
    lane: PoolKey,
    mut uses: watch::Receiver<ConnectionUses>,
    idle_max: Duration,
) {
    let mut since = Instant::now();
    loop {
        if uses.wait_for(|uses| uses.count == 0).await.is_err() {
            return;
        }
        since = since.max(uses.borrow_and_update().since);
        tokio::select! {
            changed = uses.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep(idle_max.saturating_sub(since.elapsed())) => {
                if pool.upgrade().is_none_or(|pool| pool.retire(&lane, idle_max)) {
                    return;
                }
                since = Instant::now();
            }
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
