//! The connections to a legacy server that belong to one counterpart each, because the server learns at the handshake what
//! the client can be asked, and does not say for whom its questions are.
//!
//! Bounded: when there are too many, the one that has been idle longest makes room. Idle ones end by themselves.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{Counterpart, PerformFailure, connection::Connection, setting::Setting};

/// The connections.
pub(crate) struct Pool {
    setting: Arc<Setting>,
    /// Ends all of them.
    stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    own: HashMap<Counterpart, Own>,
    /// How many are on their way out. They still cost what they cost.
    ending: usize,
}

/// One counterpart's connection.
struct Own {
    connection: Arc<Connection>,
    /// How many requests use it, and since when.
    uses: watch::Sender<Uses>,
}

#[derive(Debug, Clone, Copy)]
struct Uses {
    count: usize,
    since: Instant,
}

/// The use of a connection by one request.
pub(crate) struct Lease {
    pub(crate) connection: Arc<Connection>,
    uses: watch::Sender<Uses>,
}

impl Pool {
    pub(crate) fn new(setting: Arc<Setting>, stop: CancellationToken) -> Arc<Self> {
        Arc::new(Self { setting, stop, state: Mutex::default() })
    }

    /// That counterpart's connection, to be used; fails if there are too many and all of them are in use.
    pub(crate) fn lease(self: &Arc<Self>, counterpart: &Counterpart) -> Result<Lease, PerformFailure> {
        let mut state = self.lock();
        if let Some(own) = state.own.get(counterpart) {
            return Ok(own.lease());
        }
        self.make_room(&mut state)?;
        let connection = Arc::new(Connection::new(&self.setting, Some(counterpart.clone()), self.stop.child_token()));
        let uses = watch::Sender::new(Uses { count: 0, since: Instant::now() });
        let own = Own { connection, uses };
        let lease = own.lease();
        let keeping = keep(Arc::downgrade(self), counterpart.clone(), own.uses.subscribe(), self.idle_max());
        let stop = self.stop.clone();
        self.setting.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = keeping => {}
            }
        });
        state.own.insert(counterpart.clone(), own);
        Ok(lease)
    }

    /// That counterpart's connection, if there is one.
    pub(crate) fn get(&self, counterpart: &Counterpart) -> Option<Arc<Connection>> {
        self.lock().own.get(counterpart).map(|own| Arc::clone(&own.connection))
    }

    /// Ends the connections of an affinity.
    pub(crate) fn release(self: &Arc<Self>, affinity: &str) {
        let mut state = self.lock();
        let released: Vec<Counterpart> =
            state.own.keys().filter(|counterpart| &*counterpart.affinity == affinity).cloned().collect();
        for counterpart in released {
            self.end(&mut state, &counterpart);
        }
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().own.len()
    }

    fn make_room(self: &Arc<Self>, state: &mut State) -> Result<(), PerformFailure> {
        let connections_max = self.setting.spec.limits.connections_max;
        let busy = PerformFailure::Busy { in_flight_max: connections_max };
        if state.own.len() < connections_max {
            return Ok(());
        }
        let idle = state.own.iter().filter_map(|(counterpart, own)| Some((own.idle_since()?, counterpart)));
        let longest_idle = idle.min_by_key(|(since, _)| *since).map(|(_, counterpart)| counterpart.clone());
        match longest_idle {
            // Whoever comes and goes faster than servers end must not start any number of them.
            Some(counterpart) if state.ending < connections_max => {
                self.end(state, &counterpart);
                Ok(())
            }
            _ => Err(busy),
        }
    }

    /// Ends a connection if nobody has used it for as long as one may be idle.
    fn retire(self: &Arc<Self>, counterpart: &Counterpart, idle_max: Duration) -> bool {
        let mut state = self.lock();
        let Some(own) = state.own.get(counterpart) else { return true };
        let retires = own.idle_since().is_some_and(|since| since.elapsed() >= idle_max);
        if retires {
            self.end(&mut state, counterpart);
        }
        retires
    }

    /// Ends a connection and counts it until it is gone.
    fn end(self: &Arc<Self>, state: &mut State, counterpart: &Counterpart) {
        let Some(own) = state.own.remove(counterpart) else { return };
        own.connection.stop();
        state.ending += 1;
        let pool = Arc::downgrade(self);
        self.setting.tasks.spawn(async move {
            own.connection.ended().await;
            if let Some(pool) = pool.upgrade() {
                let mut state = pool.lock();
                state.ending = state.ending.saturating_sub(1);
            }
        });
    }

    fn idle_max(&self) -> Duration {
        Duration::from_millis(self.setting.spec.limits.connection_idle_ms_max)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Own {
    /// Since when nobody has used it; none while somebody does. A question between requests is a use.
    fn idle_since(&self) -> Option<Instant> {
        let uses = *self.uses.borrow();
        let asks = self.connection.ready().is_some_and(|link| link.asks());
        (uses.count == 0 && !asks).then_some(uses.since)
    }

    fn lease(&self) -> Lease {
        self.uses.send_modify(|uses| *uses = Uses { count: uses.count + 1, since: Instant::now() });
        Lease { connection: Arc::clone(&self.connection), uses: self.uses.clone() }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.uses.send_modify(|uses| *uses = Uses { count: uses.count.saturating_sub(1), since: Instant::now() });
    }
}

/// Waits until a connection has been idle for too long, and ends it. Ends when the connection is no longer in the pool.
async fn keep(pool: Weak<Pool>, counterpart: Counterpart, mut uses: watch::Receiver<Uses>, idle_max: Duration) {
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
                if pool.upgrade().is_none_or(|pool| pool.retire(&counterpart, idle_max)) {
                    return;
                }
                since = Instant::now();
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        formatter.debug_struct("Pool").field("own", &state.own.len()).field("ending", &state.ending).finish()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Lease").finish_non_exhaustive()
    }
}
