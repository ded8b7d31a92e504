//! Open connections, and which of them wait, that is, have no request under way. When all places are taken, a newcomer gets the place
//! of a waiting connection of the peer that has most of them. Connections that had time to send a request and sent none go first, then
//! idle ones, and last those that were just opened or just answered; among equals the one that has waited longest goes. So a peer that
//! opens connections and sends nothing loses its own places first, and a connection with a request under way is never ended.
//!
//! One peer may be many clients behind one address, so the number of a peer's requests is not limited here.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// The waiting connections of one peer may hold one in so many of the places.
const WAITING_SHARE: usize = 2;
/// How long a connection that was just opened or just answered may wait before it counts as silent or idle.
const NEW_FOR: Duration = Duration::from_secs(1);

/// All open connections.
#[derive(Debug)]
pub(super) struct Connections {
    waiting_per_peer_max: usize,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    by_number: BTreeMap<u64, Arc<Connection>>,
}

/// One connection. It is forgotten when its [`Seat`] is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    peer: IpAddr,
    /// Whether it ever sent a request.
    asked: AtomicBool,
    /// Its requests whose answers are not written to the end.
    requests: AtomicUsize,
    waiting_since: Mutex<Instant>,
    /// Cancelled when its place is needed.
    pub(super) ended: CancellationToken,
}

/// Held while a connection is open.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    pub(super) connection: Arc<Connection>,
    among: Arc<Connections>,
}

/// Held while a request is under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

/// The body of an answer. Its request counts as under way until the body is written.
#[derive(Debug)]
pub(super) struct BusyBody<B> {
    body: B,
    _busy: Busy,
}

impl Connections {
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        let waiting_per_peer_max = (connections_max / WAITING_SHARE).max(1);
        Arc::new(Self { waiting_per_peer_max, open: Mutex::default() })
    }

    /// Takes a connection in. If its peer has too many waiting connections, one of them is ended.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> Seat {
        let connection = Arc::new(Connection {
            peer,
            asked: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
            waiting_since: Mutex::new(Instant::now()),
            ended: CancellationToken::new(),
        });
        let mut open = self.open();
        let own = open.waiting().filter(|connection| connection.peer == peer);
        let own: Vec<&Arc<Connection>> = own.collect();
        if own.len() >= self.waiting_per_peer_max {
            end_oldest(own.into_iter());
        }
        open.last += 1;
        let number = open.last;
        open.by_number.insert(number, Arc::clone(&connection));
        Seat { number, connection, among: Arc::clone(self) }
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

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Connections that have no request under way and are not about to end.
    fn waiting(&self) -> impl Iterator<Item = &Arc<Connection>> {
        let waits = |connection: &&Arc<Connection>| {
            connection.requests.load(Ordering::Relaxed) == 0 && !connection.ended.is_cancelled()
        };
        self.by_number.values().filter(waits)
    }
}

fn end_oldest<'a>(waiting: impl Iterator<Item = &'a Arc<Connection>>) -> bool {
    waiting.min_by_key(|connection| (connection.worth(), connection.waiting_since())).is_some_and(|oldest| {
        oldest.ended.cancel();
        true
    })
}

/// What a waiting connection is worth; the least is ended first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It had time to send a request and sent none.
    Silent,
    /// It sent requests before, and none for a while.
    Idle,
    /// It was just opened or just answered: a request or an answer may still be on its way.
    New,
}

impl Connection {
    /// A request begins.
    pub(super) fn ask(self: &Arc<Self>) -> Busy {
        self.asked.store(true, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    fn worth(&self) -> Worth {
        match (self.waiting_since().elapsed() > NEW_FOR, self.asked.load(Ordering::Relaxed)) {
            (false, _) => Worth::New,
            (true, true) => Worth::Idle,
            (true, false) => Worth::Silent,
        }
    }

    fn waiting_since(&self) -> Instant {
        *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Busy {
    /// The body, which keeps the request under way until it is written.
    pub(super) fn until_written<B>(self, body: B) -> BusyBody<B> {
        BusyBody { body, _busy: self }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.0.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.among.open().by_number.remove(&self.number);
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, Ipv4Addr},
        time::Instant,
    };

    use super::{Connections, NEW_FOR};

    fn peer(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
    }

    #[test]
    fn the_peer_with_most_idle_connections_loses_one() {
        let connections = Connections::new(100);
        let quiet = connections.enter(peer(1));
        let loud: Vec<_> = (0..10).map(|_| connections.enter(peer(2))).collect();
        drop([loud[3].connection.ask(), loud[0].connection.ask()]);
        for number in [3, 5] {
            *loud[number].connection.waiting_since.lock().unwrap() = Instant::now().checked_sub(2 * NEW_FOR).unwrap();
        }
        let ended = || loud.iter().position(|seat| seat.connection.ended.is_cancelled());
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
        let connections = Connections::new(100);
        let seats: Vec<_> = (0..10).map(|_| connections.enter(peer(1))).collect();
        let busy: Vec<_> = seats.iter().map(|seat| seat.connection.ask()).collect();
        assert!(!connections.make_room());
        let written = busy.into_iter().next().unwrap().until_written(());
        assert!(!connections.make_room() || seats.iter().skip(1).any(|seat| seat.connection.ended.is_cancelled()));
        drop(written);
        assert!(connections.make_room());
    }

    #[test]
    fn one_peers_waiting_connections_hold_at_most_half_of_the_places() {
        let connections = Connections::new(20);
        let seats: Vec<_> = (0..20).map(|_| connections.enter(peer(1))).collect();
        assert_eq!(seats.iter().filter(|seat| seat.connection.ended.is_cancelled()).count(), 10);
        drop(seats);
        assert!(connections.open().by_number.is_empty());
    }
}
