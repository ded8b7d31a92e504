//! One whole call of a tool that reads, as a client, a server and a ledger see it: from the bytes of the HTTP request at the door, through
//! the codecs, the catalog, the gates, the policies and the HTTP client to a server in this process, and back to the bytes of the answer
//! and the record in SQLite.
//!
//! Everything is what `servanda serve` puts together, with three exceptions, so that the same work is counted every time: pipes in memory
//! instead of sockets, one thread for door, engine and server, and a commit for each record instead of one for those of some milliseconds.

mod client;
mod gateway;
mod golden;
pub(crate) mod guard;
pub(crate) mod measure;
mod pipe;
mod server;

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::counting::{Asked, asked_by_all};

/// Calls before those that are counted: when they are over, everything is there that is made once or grows for a while.
const WARM_UP_CALLS: usize = 30;

/// The revision of the protocol that client and server speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, in a session.
    Legacy,
    /// 2026-07-28, where every request stands alone.
    Modern,
}

/// A call that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MeasuredCall {
    pub(crate) era: Era,
    /// Whether the verifiable log is written, as it is by default.
    pub(crate) is_logged: bool,
}

impl MeasuredCall {
    /// Every one that is measured.
    pub(crate) const ALL: [Self; 4] = [
        Self { era: Era::Legacy, is_logged: true },
        Self { era: Era::Modern, is_logged: true },
        Self { era: Era::Legacy, is_logged: false },
        Self { era: Era::Modern, is_logged: false },
    ];

    /// In tables and complaints.
    pub(crate) const fn words(self) -> &'static str {
        match (self.era, self.is_logged) {
            (Era::Legacy, true) => "legacy",
            (Era::Modern, true) => "modern",
            (Era::Legacy, false) => "legacy, without the log",
            (Era::Modern, false) => "modern, without the log",
        }
    }

    /// As an argument.
    pub(crate) const fn log_word(self) -> &'static str {
        if self.is_logged { "log" } else { "no-log" }
    }
}

impl Era {
    /// As an argument, and in tables.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    /// The revision's date.
    pub(crate) const fn revision(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }

    /// The era that an argument means.
    pub(crate) fn of(word: &str) -> Option<Self> {
        [Self::Legacy, Self::Modern].into_iter().find(|era| era.word() == word)
    }
}

/// Makes so many calls after those that warm up, and says what all threads of the process asked of the allocator meanwhile.
pub(crate) fn make(MeasuredCall { era, is_logged }: MeasuredCall, calls: usize) -> Asked {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder for the ledger");
        let (gateway, pipe) = gateway::Gateway::open(era, is_logged, folder.path()).await;
        let mut client = client::Client::greet(era, pipe).await;
        for _ in 0..WARM_UP_CALLS {
            client.call().await;
        }
        let before = asked_by_all();
        calls_begin();
        for _ in 0..calls {
            client.call().await;
        }
        calls_end();
        let asked = asked_by_all().since(before);
        gateway.close(WARM_UP_CALLS + calls).await;
        asked
    })
}

/// A count that tasks share.
#[derive(Debug, Default)]
struct Tally(AtomicUsize);

impl Tally {
    fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The names of these two are what callgrind is told to begin and end at.
#[inline(never)]
fn calls_begin() {
    black_box("calls begin");
}

#[inline(never)]
fn calls_end() {
    black_box("calls end ");
}
