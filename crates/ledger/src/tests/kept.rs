//! A store under trial, whichever it is: what the suite needs of it beside its ports.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_contract::{CallRecord, Timestamp, time::Clock};
use servanda_gates::{
    FleetingNotebook, Notebook,
    effect::{Effects, FleetingEffects},
};

use crate::{Ledger, Reader};

/// A store under trial.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) effects: Arc<dyn Effects>,
    pub(super) place: Place,
}

/// Where it is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Memory(Arc<FleetingEffects>, Arc<HandClock>, Arc<FleetingNotebook>),
    File(Arc<Ledger>, PathBuf, Arc<tempfile::TempDir>),
    Server(Arc<Ledger>, String),
}

/// A clock that is moved by hand.
#[derive(Debug)]
pub(super) struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

impl Kept {
    pub(super) fn in_memory() -> Self {
        let clock = Arc::new(HandClock(AtomicU64::new(1_800_000_000_000)));
        let notebook: Arc<FleetingNotebook> = Arc::default();
        let effects = Arc::new(FleetingEffects::new(clock.clone()).with_notebook(notebook.clone()));
        Self { effects: effects.clone(), place: Place::Memory(effects, clock, notebook) }
    }

    pub(super) fn in_file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/ledger.db");
        Self::of_file(path, Arc::new(folder))
    }

    pub(super) async fn in_server(url: String) -> Self {
        let ledger = Arc::new(Ledger::connect(&url).await.unwrap());
        Self { effects: ledger.clone(), place: Place::Server(ledger, url) }
    }

    pub(super) fn of_file(path: PathBuf, folder: Arc<tempfile::TempDir>) -> Self {
        let ledger = Arc::new(Ledger::open(&path).unwrap());
        Self { effects: ledger.clone(), place: Place::File(ledger, path, folder) }
    }

    /// Another gateway on the same store. In memory there is no other.
    pub(super) async fn replica(&self) -> Self {
        match &self.place {
            Place::Memory(..) => self.clone(),
            Place::File(_, path, folder) => Self::of_file(path.clone(), folder.clone()),
            Place::Server(_, url) => Self::in_server(url.clone()).await,
        }
    }

    /// The ledger, where it is one.
    pub(super) fn ledger(&self) -> &Ledger {
        match &self.place {
            Place::Memory(..) => panic!("there is no ledger in memory"),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger,
        }
    }

    /// The ledger, for others to hold too.
    pub(super) fn shared(&self) -> Arc<Ledger> {
        match &self.place {
            Place::Memory(..) => panic!("there is no ledger in memory"),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger.clone(),
        }
    }

    /// Its notes.
    pub(super) fn notebook(&self) -> &dyn Notebook {
        match &self.place {
            Place::Memory(_, _, notebook) => notebook.as_ref(),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger.as_ref(),
        }
    }

    pub(super) async fn reader(&self) -> Reader {
        self.ledger().reader().await.unwrap()
    }

    /// From now on it is so much later for the store.
    pub(super) fn advance(&self, by_ms: u64) {
        match &self.place {
            Place::Memory(_, clock, _) => drop(clock.0.fetch_add(by_ms, Ordering::SeqCst)),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger.store.time().advance(by_ms),
        }
    }

    /// The ids of the calls that are on record, sorted.
    pub(super) async fn recorded(&self) -> Vec<String> {
        let calls: Vec<CallRecord> = match &self.place {
            Place::Memory(effects, ..) => effects.records(),
            _ => self.reader().await.find(&crate::CallQuery::Latest, 10_000).await.unwrap(),
        };
        let mut ids: Vec<String> = calls.iter().map(|record| record.call_id.to_string()).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}
