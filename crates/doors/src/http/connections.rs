//! Open connections, and which of them ask nothing at the moment. Where there is no room for a newcomer, one of those goes: of the peer
//! that has most of them, first those that had time to ask something and did not, then idle ones, and last those that have just come or
//! were just answered; of each the oldest. Whoever opens connections without asking anything takes places from itself, and from nobody who asks something.
//!
//! One peer may be many clients behind one address, so what a peer asks is not limited here.

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

/// One peer may have one in so many of the places without asking anything.
const WAITING_SHARE: usize = 2;
/// How long a connection has to ask something, or to ask again, before it counts as one that does not.
const NEW_FOR: Duration = Duration::from_secs(1);

/// All of them.
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
    /// Whether it ever asked anything.
    asked: AtomicBool,
    /// Requests of it that are not answered to the end.
    requests: AtomicUsize,
    waiting_since: Mutex<Instant>,
    /// Cancelled when its place is needed.
    pub(super) ended: CancellationToken,
}

/// That a connection is open.
#[derive(Debug)]
pub(super) struct Seat {
    number: u64,
    pub(super) connection: Arc<Connection>,
    among: Arc<Connections>,
}

/// That a request is under way.
#[derive(Debug)]
pub(super) struct Busy(Arc<Connection>);

/// The body of an answer: its request is under way until it is written.
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

    /// Takes a connection in. Where its peer has too many that ask nothing, the oldest of them goes.
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

    /// Ends one that asks nothing. Whether there is one.
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
    /// Those that ask nothing and are not about to end.
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

/// What a connection that asks nothing is worth, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// It had time to ask and did not.
    Silent,
    /// It asked before, and has not asked again for a while.
    Idle,
    /// It has just come, or was just answered: a request or an answer of it may be on its way.
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
    /// The request is under way until this is written.
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
        assert_eq!(ended(), Some(5), "who had time to ask and did not goes first");
        assert!(connections.make_room());
        assert_eq!(ended(), Some(3), "then who is idle");
        assert!(connections.make_room());
        assert_eq!(ended(), Some(1), "then who came first of those that have just come or were just answered");
        assert!(!quiet.connection.ended.is_cancelled());
    }

    #[test]
    fn whoever_asks_something_stays() {
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
    fn one_peer_has_half_of_the_places_without_asking_anything() {
        let connections = Connections::new(20);
        let seats: Vec<_> = (0..20).map(|_| connections.enter(peer(1))).collect();
        assert_eq!(seats.iter().filter(|seat| seat.connection.ended.is_cancelled()).count(), 10);
        drop(seats);
        assert!(connections.open().by_number.is_empty());
    }
}
