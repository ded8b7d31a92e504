//! Parts of the fixture that a test changes: a clock that is put forward, a notebook that is away, and keys that are the same each time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use servanda_authn::{
    attestation_keys::ATTESTATION_PURPOSE,
    root_keys::{ROOTS_PURPOSE, SealingKeySource},
};
use servanda_authority::{Secret, sealing::SealingKey};
use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture};
use servanda_engine::SystemClock;

/// The machine's clock, and what a test adds to it.
#[derive(Debug, Default)]
pub struct ShiftedClock(AtomicU64);

impl ShiftedClock {
    pub fn pass_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(SystemClock.now().unix_ms() + self.0.load(Ordering::SeqCst))
    }
}

/// A notebook that can be away.
#[derive(Debug, Default)]
pub struct AwayNotebook {
    notes: InMemoryNotebook,
    pub is_away: AtomicBool,
}

impl AwayNotebook {
    fn here(&self) -> Result<(), JournalError> {
        if self.is_away.load(Ordering::SeqCst) { Err(JournalError::new("away")) } else { Ok(()) }
    }
}

impl Notebook for AwayNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write(note).await
        })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write_first(note).await
        })
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write_if(note, found, now).await
        })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            self.here()?;
            self.notes.read(kind, &key, now).await
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        self.notes.list(kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.erase(kind, key)
    }
}

#[derive(Debug)]
pub struct FixedSeal;

impl SealingKeySource for FixedSeal {
    fn roots_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ROOTS_PURPOSE, &Secret::new([7; 32])).map_err(|error| error.to_string())
    }

    fn attestation_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ATTESTATION_PURPOSE, &Secret::new([7; 32])).map_err(|error| error.to_string())
    }
}
