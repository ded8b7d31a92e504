//! Open connections, and which of them wait, that is, have no request under way. When all places are taken, a newcomer gets the place
//! of a waiting connection of the peer that has most of them. Connections that had time to send a request and sent none go first, then
//! idle ones, and last those that were just opened or just answered; among equals the one that has waited longest goes. So a peer that
//! opens connections and sends nothing loses its own places first, and a connection with a request under way is never ended.
//!
//! A request is under way until its answer is written. The answer to a caller who was not let in keeps no place, and neither does an answer
//! of which the client takes nothing for too long: such a connection waits. A connection on which all answers stall is ended even if no
//! newcomer needs its place.
//!
//! One peer may be many clients behind one address, so the number of a peer's requests is not limited here.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::progress::AnswerProgress;

/// The waiting connections of one peer may hold one in so many of the places.
const WAITING_SHARE: usize = 2;
/// How long a connection that was just opened or just answered may wait before it counts as silent or idle.
const NEW_FOR: Duration = Duration::from_secs(1);
/// How many times a connection is looked at while an answer may stall.
const STALL_LOOKS: u32 = 4;

/// All open connections.
#[derive(Debug)]
pub(super) struct HttpConnections {
    waiting_per_peer_max: usize,
    stall_max: Duration,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    by_number: BTreeMap<u64, Arc<HttpConnection>>,
}

/// One connection. It is forgotten when its [`ConnectionGuard`] is dropped.
#[derive(Debug)]
pub(super) struct HttpConnection {
    pub(super) peer: IpAddr,
    /// Whether it ever sent a request.
    asked: AtomicBool,
    /// Its requests whose answers are not written to the end.
    requests: Mutex<Vec<UnwrittenAnswer>>,
    /// How long a client may take nothing of an answer.
    stall_max: Duration,
    waiting_since: Mutex<Instant>,
    /// Cancelled when its place is needed.
    pub(super) ended: CancellationToken,
}

/// Held while a connection is open.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    number: u64,
    pub(super) connection: Arc<HttpConnection>,
    connections: Arc<HttpConnections>,
}

/// A request whose answer is not written to the end.
#[derive(Debug)]
struct UnwrittenAnswer {
    progress: Arc<AnswerProgress>,
    /// Whether it keeps the connection's place.
    keeps_place: bool,
}

/// Held while a request is under way.
#[derive(Debug)]
pub(super) struct AnswerGuard {
    connection: Arc<HttpConnection>,
    progress: Arc<AnswerProgress>,
}

impl HttpConnections {
    pub(super) fn new(connections_max: usize, stall_max: Duration) -> Arc<Self> {
        let waiting_per_peer_max = (connections_max / WAITING_SHARE).max(1);
        Arc::new(Self { waiting_per_peer_max, stall_max, open: Mutex::default() })
    }

    /// Takes a connection in. If its peer has too many waiting connections, one of them is ended.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> ConnectionGuard {
        let connection = Arc::new(HttpConnection {
            peer,
            asked: AtomicBool::new(false),
            requests: Mutex::default(),
            stall_max: self.stall_max,
            waiting_since: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
        });
        let mut open = self.open();
        let own = open.waiting().filter(|connection| connection.peer == peer);
        let own: Vec<&Arc<HttpConnection>> = own.collect();
        if own.len() >= self.waiting_per_peer_max {
            end_oldest(own.into_iter());
        }
        open.last += 1;
        let number = open.last;
        open.by_number.insert(number, Arc::clone(&connection));
        ConnectionGuard { number, connection, connections: Arc::clone(self) }
    }

    /// Ends a waiting connection. False if none waits.
    pub(super) fn make_room(&self) -> bool {
        let open = self.open();
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for connection in open.waiting() {
            *counts.entry(connection.peer).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer);
        most.is_some_and(|peer| end_oldest(open.waiting().filter(|connection| connection.peer == peer)))
    }

    fn open(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Connections that have no request under way and are not about to end.
    fn waiting(&self) -> impl Iterator<Item = &Arc<HttpConnection>> {
        let waits = |connection: &&Arc<HttpConnection>| connection.is_waiting() && !connection.ended.is_cancelled();
        self.by_number.values().filter(waits)
    }
}

fn end_oldest<'a>(waiting: impl Iterator<Item = &'a Arc<HttpConnection>>) -> bool {
    waiting.min_by_key(|connection| (connection.eviction_rank(), connection.waiting_since())).is_some_and(|oldest| {
        oldest.ended.cancel();
        true
    })
}

/// What a waiting connection is worth; the least is ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    /// It had time to send a request and sent none.
    Silent,
    /// It sent requests before, and none for a while.
    Idle,
    /// It was just opened or just answered: a request or an answer may still be on its way.
    New,
}

impl HttpConnection {
    /// A request begins.
    pub(super) fn begin_request(self: &Arc<Self>) -> AnswerGuard {
        self.asked.store(true, Ordering::Relaxed);
        let progress = Arc::<AnswerProgress>::default();
        self.requests().push(UnwrittenAnswer { progress: Arc::clone(&progress), keeps_place: true });
        AnswerGuard { connection: Arc::clone(self), progress }
    }

    /// Waits until all answers under way stall. Cancel safe.
    pub(super) async fn stalls(&self) {
        loop {
            tokio::time::sleep(self.stall_max / STALL_LOOKS).await;
            let requests = self.requests();
            let stall = |request: &UnwrittenAnswer| request.progress.is_stalled(self.stall_max);
            if !requests.is_empty() && requests.iter().all(stall) {
                return;
            }
        }
    }

    /// Whether no request keeps its place.
    fn is_waiting(&self) -> bool {
        self.requests().iter().all(|request| !request.keeps_place || request.progress.is_stalled(self.stall_max))
    }

    fn requests(&self) -> MutexGuard<'_, Vec<UnwrittenAnswer>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn eviction_rank(&self) -> EvictionRank {
        match (self.waiting_since().elapsed() > NEW_FOR, self.asked.load(Ordering::Relaxed)) {
            (false, _) => EvictionRank::New,
            (true, true) => EvictionRank::Idle,
            (true, false) => EvictionRank::Silent,
        }
    }

    fn waiting_since(&self) -> Instant {
        *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerGuard {
    /// The request no longer keeps the connection's place.
    pub(super) fn release_connection(&self) {
        *self.connection.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut requests = self.connection.requests();
        let own = requests.iter_mut().find(|request| Arc::ptr_eq(&request.progress, &self.progress));
        if let Some(own) = own {
            own.keeps_place = false;
        }
    }

    pub(super) fn progress(&self) -> &Arc<AnswerProgress> {
        &self.progress
    }
}

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        *self.connection.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.connection.requests().retain(|request| !Arc::ptr_eq(&request.progress, &self.progress));
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.open().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        time::{Duration, Instant},
    };

    use super::{
        super::{super::answer_body::AnswerBody, paced_body::PacedBody},
        HttpConnections, NEW_FOR,
    };

    const STALL_MAX: Duration = Duration::from_secs(30);

    fn peer(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn the_peer_with_most_idle_connections_loses_one() {
        let connections = HttpConnections::new(100, STALL_MAX);
        let quiet = connections.enter(peer(1));
        let loud: Vec<_> = (0..10).map(|_| connections.enter(peer(2))).collect();
        drop([loud[3].connection.begin_request(), loud[0].connection.begin_request()]);
        for number in [3, 5] {
            *loud[number].connection.waiting_since.lock().unwrap() = Instant::now().checked_sub(2 * NEW_FOR).unwrap();
        }
        let ended = || loud.iter().position(|connection_guard| connection_guard.connection.ended.is_cancelled());
        assert!(connections.make_room());
        assert_eq!(ended(), Some(5), "the silent one goes first");
        assert!(connections.make_room());
        assert_eq!(ended(), Some(3), "then the idle one");
        assert!(connections.make_room());
        assert_eq!(ended(), Some(1), "then the oldest of those that were just opened or just answered");
        assert!(!quiet.connection.ended.is_cancelled());
    }

    #[test]
    fn a_connection_with_a_request_under_way_stays() {
        let connections = HttpConnections::new(100, STALL_MAX);
        let connection_guards: Vec<_> = (0..10).map(|_| connections.enter(peer(1))).collect();
        let busy: Vec<_> =
            connection_guards.iter().map(|connection_guard| connection_guard.connection.begin_request()).collect();
        assert!(!connections.make_room());
        let written = PacedBody::new(AnswerBody::empty(), busy.into_iter().next().unwrap());
        assert!(
            !connections.make_room()
                || connection_guards
                    .iter()
                    .skip(1)
                    .any(|connection_guard| connection_guard.connection.ended.is_cancelled())
        );
        drop(written);
        assert!(connections.make_room());
    }

    #[test]
    fn an_answer_that_nobody_takes_or_nobody_let_in_keeps_no_place() {
        let connections = HttpConnections::new(100, Duration::ZERO);
        let connection_guard = connections.enter(peer(1));
        let working = connection_guard.connection.begin_request();
        assert!(!connections.make_room(), "a request that is worked on does not stall");
        let answered = PacedBody::new(AnswerBody::empty(), working);
        assert!(connections.make_room(), "its client takes no answer");
        drop(answered);
        let connections = HttpConnections::new(100, STALL_MAX);
        let connection_guard = connections.enter(peer(1));
        let (first, second) =
            (connection_guard.connection.begin_request(), connection_guard.connection.begin_request());
        first.release_connection();
        assert!(!connections.make_room(), "the other request keeps it");
        drop(second);
        assert!(connections.make_room());
    }

    #[test]
    fn one_peers_waiting_connections_hold_at_most_half_of_the_places() {
        let connections = HttpConnections::new(20, STALL_MAX);
        let connection_guards: Vec<_> = (0..20).map(|_| connections.enter(peer(1))).collect();
        assert_eq!(
            connection_guards
                .iter()
                .filter(|connection_guard| connection_guard.connection.ended.is_cancelled())
                .count(),
            10
        );
        drop(connection_guards);
        assert!(connections.open().by_number.is_empty());
    }
}
