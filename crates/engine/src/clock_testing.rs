//! A clock for tests, which moves only when a test says so.

use std::sync::{Arc, Mutex};

use servanda_contract::{Timestamp, time::Clock};

/// A clock that moves when a test says so.
#[derive(Debug)]
pub(crate) struct EngineTestClock(Mutex<u64>);

impl EngineTestClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(1_800_000_000_000)))
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        *self.0.lock().unwrap() += ms;
    }
}

impl Clock for EngineTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(*self.0.lock().unwrap())
    }
}
