//! The connections to one origin that no request uses at the moment. Their number and their idle time are bounded.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use hyper::{body::Incoming, client::conn::http2};
use tokio::{runtime::Handle, sync::Notify, time::Instant};

use super::{
    ClientLimits,
    body::HttpRequestBody,
    inline::{InlineConnection, current_runtime},
};

/// A connection that many requests use at the same time.
pub(super) type Http2Sender = http2::SendRequest<HttpRequestBody>;

/// A connection that a request is made on.
#[derive(Debug)]
pub(super) enum OriginConnection {
    /// HTTP/1.1, for one request at a time.
    Inline(Box<InlineConnection>),
    /// HTTP/2, for many requests.
    Shared(Http2Sender),
}

/// The unused connections, and the HTTP/2 connection that requests share.
#[derive(Debug)]
pub(super) struct OriginPool {
    idle_max: usize,
    idle_time_max: Duration,
    unended_time_max: Duration,
    state: Mutex<OriginPoolState>,
    /// Notified when the next connection has to be closed sooner than planned.
    sooner: Arc<Notify>,
}

#[derive(Debug, Default)]
struct OriginPoolState {
    /// The connection used last is last.
    idle: Vec<IdleConnection>,
    shared: Option<(Http2Sender, Instant)>,
    /// Whether there was ever an answer that the server ended late.
    has_unended: bool,
    /// Whether the task that closes old connections is running.
    swept: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Box<InlineConnection>,
    /// The rest of the last answer, if the server had not ended it.
    unended: Option<Incoming>,
    since: Instant,
}

impl OriginPool {
    pub(super) fn new(limits: ClientLimits) -> Self {
        let idle_time_max = Duration::from_millis(limits.idle_ms_max);
        let unended_time_max = idle_time_max.min(Duration::from_millis(limits.unended_ms_max));
        let (kept, sooner) = (Mutex::default(), Arc::default());
        Self { idle_max: limits.idle_connections, idle_time_max, unended_time_max, state: kept, sooner }
    }

    /// The shared connection, or the one that was used last on this runtime, if the server has not closed it.
    pub(super) fn take(&self) -> Option<OriginConnection> {
        let current = current_runtime();
        loop {
            let mut kept = self.lock();
            if let Some(shared) = self.shared(&mut kept) {
                return Some(OriginConnection::Shared(shared));
            }
            let last = kept.idle.iter().rposition(|idle| idle.connection.is_on_runtime(current))?;
            let IdleConnection { mut connection, unended, since } = kept.idle.remove(last);
            drop(kept);
            // The others are older; the sweeper closes them.
            if since.elapsed() >= self.idle_time_max {
                return None;
            }
            let has_ended = unended.is_none_or(|mut body| connection.discard_arrived(&mut body));
            if has_ended && connection.is_ready() {
                return Some(OriginConnection::Inline(connection));
            }
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(super) fn put(self: &Arc<Self>, connection: Box<InlineConnection>) {
        self.keep(connection, None);
    }

    /// Keeps a connection for a moment: its last answer was read, but the server has not ended it yet.
    pub(super) fn put_unended(self: &Arc<Self>, connection: Box<InlineConnection>, body: Incoming) {
        self.keep(connection, Some(body));
    }

    fn keep(self: &Arc<Self>, connection: Box<InlineConnection>, unended: Option<Incoming>) {
        if connection.has_ended() {
            return;
        }
        connection.clear_task();
        let mut kept = self.lock();
        if kept.idle.len() < self.idle_max {
            if unended.is_some() && !std::mem::replace(&mut kept.has_unended, true) {
                self.sooner.notify_one();
            }
            kept.idle.push(IdleConnection { connection, unended, since: Instant::now() });
            self.sweep_later(kept);
        }
    }

    /// Lets later requests share a connection.
    pub(super) fn share(self: &Arc<Self>, sender: &Http2Sender) {
        let mut kept = self.lock();
        kept.shared = Some((sender.clone(), Instant::now()));
        self.sweep_later(kept);
    }

    fn shared(&self, kept: &mut OriginPoolState) -> Option<Http2Sender> {
        let (sender, used) = kept.shared.as_mut()?;
        if sender.is_closed() || used.elapsed() >= self.idle_time_max {
            kept.shared = None;
            return None;
        }
        *used = Instant::now();
        Some(sender.clone())
    }

    fn sweep_later(self: &Arc<Self>, mut kept: MutexGuard<'_, OriginPoolState>) {
        // Outside a runtime there is no timer; there the connections end with the client.
        if !kept.swept
            && let Ok(runtime) = Handle::try_current()
        {
            kept.swept = true;
            let first = Instant::now() + if kept.has_unended { self.unended_time_max } else { self.idle_time_max };
            drop(kept);
            runtime.spawn(sweep(Arc::downgrade(self), Arc::clone(&self.sooner), first));
        }
    }

    /// Closes connections that have been unused for too long. Returns when to look again; none if nothing is left.
    fn close_old(&self) -> Option<Instant> {
        let mut kept = self.lock();
        let now = Instant::now();
        let is_old = |since: Instant, time_max: Duration| now.duration_since(since) >= time_max;
        let time_max =
            |idle: &IdleConnection| if idle.unended.is_some() { self.unended_time_max } else { self.idle_time_max };
        let old: Vec<IdleConnection> = kept.idle.extract_if(.., |idle| is_old(idle.since, time_max(idle))).collect();
        let old_shared = kept.shared.take_if(|(sender, used)| is_old(*used, self.idle_time_max) || sender.is_closed());
        let oldest = kept.idle.first().map(|idle| idle.since);
        let oldest = oldest.into_iter().chain(kept.shared.as_ref().map(|(_, used)| *used)).min();
        // If servers end their answers late, the next connection may be of that kind.
        let soon = kept.has_unended.then_some(now + self.unended_time_max);
        let next = oldest.map(|since| (since + self.idle_time_max).min(soon.unwrap_or(since + self.idle_time_max)));
        kept.swept = next.is_some();
        // The connections are closed after the lock is released.
        drop(kept);
        drop((old, old_shared));
        next
    }

    fn lock(&self) -> MutexGuard<'_, OriginPoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections when their time is over, as long as there are any. It keeps none of them open itself.
async fn sweep(pool: Weak<OriginPool>, sooner: Arc<Notify>, first: Instant) {
    let mut next = first;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = sooner.notified() => {}
        }
        match pool.upgrade().and_then(|pool| pool.close_old()) {
            Some(again) => next = again,
            None => return,
        }
    }
}

#[cfg(test)]
impl OriginPool {
    /// Whether the server has ended the last answer on the connection that will be used next.
    pub(super) fn has_ended(&self) -> bool {
        let mut kept = self.lock();
        let Some(IdleConnection { connection, unended, .. }) = kept.idle.last_mut() else { return false };
        unended.as_mut().is_none_or(|body| connection.discard_arrived(body))
    }

    /// How many connections are unused.
    pub(super) fn idle_count(&self) -> usize {
        self.lock().idle.len()
    }
}
