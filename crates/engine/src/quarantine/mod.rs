//! Tools that are held back because of what they did or because a person wants it. The notebook stores the holds; the catalog enforces
//! them.
//!
//! If the probes of this process see a violation, the tool is held back here before anything is stored. An event that is not on record yet
//! is written again with every read of the notes, and its tool is not released meanwhile. What other gateways and operators wrote is read
//! from the notes every few seconds. If two write at the same moment, the second reads again what the first wrote, and adds to it.

mod by_person;
mod history;
#[cfg(test)]
mod race_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use servanda_catalog::{Catalog, HeldTool, StandingChange};
use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{JournalError, NoteKind, Notebook};

use self::by_person::{FoundHistory, WRITES_MAX};
pub use self::by_person::{QuarantineChange, QuarantineChangeError, change_by_person, history_of};
pub(crate) use self::history::GATEWAY;
pub use self::history::{ObservedChange, QuarantineEvent, QuarantineEventKind, QuarantineHistory, UpstreamToolKey};
use crate::world::{PresentWorld, discovery::tell_change};

/// How many notes are read at once, and how many pages of them at most.
const PAGE: u32 = 256;
const PAGES_MAX: usize = 64;
/// How long the store may take.
const STORE_MS_MAX: u64 = 5_000;

/// The tools that are held back, as far as this process knows.
#[derive(Debug)]
pub(crate) struct Quarantine {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
    world: Arc<PresentWorld>,
    state: Mutex<QuarantineState>,
    /// One task at a time reads the notes or writes one, so that what is read is never older than what was written here.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct QuarantineState {
    held: BTreeMap<UpstreamToolKey, HeldTool>,
    /// Events of this process that are not on record yet.
    unsaved: BTreeMap<UpstreamToolKey, QuarantineEvent>,
}

/// The histories of all tools that are or were held back.
pub async fn histories(notebook: &dyn Notebook, now: Timestamp) -> Result<Vec<QuarantineHistory>, JournalError> {
    let mut found = Vec::new();
    let mut after = String::new();
    for _ in 0..PAGES_MAX {
        let page = notebook.list(NoteKind::Quarantine, &after, PAGE, now).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after.clone_from(&last.key);
        for note in &page {
            if let Some(history) = QuarantineHistory::from_note(note) {
                found.push(history);
            } else {
                tracing::error!(key = note.key, "a note about a quarantine names no tool");
            }
        }
    }
    // A hold that is not read would not be enforced.
    Err(JournalError::new("there are too many notes about quarantines"))
}

/// Records an event of a tool, and returns the tool's history.
pub async fn record_event(
    notebook: &dyn Notebook,
    tool: &UpstreamToolKey,
    event: QuarantineEvent,
    now: Timestamp,
) -> Result<QuarantineHistory, JournalError> {
    for _ in 0..WRITES_MAX {
        let found = FoundHistory::read(notebook, tool, now).await?;
        if let Some(history) = found.with(notebook, event.clone(), now).await? {
            return Ok(history);
        }
    }
    Err(JournalError::new("others changed the tool's quarantine all the time"))
}

impl Quarantine {
    pub(crate) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>, world: Arc<PresentWorld>) -> Self {
        Self { notebook, clock, world, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Holds a tool back: in this process before this returns, and on record if the store takes it in time.
    pub(crate) async fn hold(&self, tool: UpstreamToolKey, event: QuarantineEvent) {
        let mut history = QuarantineHistory::new(tool.clone());
        history.add(event.clone());
        let Some(held) = history.held() else { return };
        let changes = {
            let mut known = self.state();
            known.held.insert(tool.clone(), held);
            known.unsaved.insert(tool.clone(), event);
            known.apply_to(&self.world.snapshot().catalog)
        };
        changes.iter().for_each(tell_change);
        let saving = async {
            let _turn = self.turn.lock().await;
            self.save().await
        };
        match tokio::time::timeout(Duration::from_millis(STORE_MS_MAX), saving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(
                upstream = tool.upstream, tool = tool.tool, %error,
                "the hold of a tool is not on record yet; other gateways do not know of it"
            ),
            Err(_) => tracing::error!(
                upstream = tool.upstream,
                tool = tool.tool,
                "the ledger is too slow; the hold of a tool may not be on record yet"
            ),
        }
    }

    /// Makes a person's change: on record first, then in this process. Other gateways read it within seconds.
    pub(crate) async fn change(&self, change: QuarantineChange) -> Result<QuarantineHistory, QuarantineChangeError> {
        let slow = || QuarantineChangeError::Store("it took too long".to_owned());
        let changing = async {
            let _turn = self.turn.lock().await;
            // What this process saw must be on record before a person's word replaces it.
            self.save().await?;
            let history = change_by_person(self.notebook.as_ref(), change, self.clock.now()).await?;
            let changes = {
                let mut known = self.state();
                match history.held() {
                    Some(held) => drop(known.held.insert(history.tool.clone(), held)),
                    // A violation that was seen while this was written holds the tool.
                    None if known.unsaved.contains_key(&history.tool) => {}
                    None => drop(known.held.remove(&history.tool)),
                }
                known.apply_to(&self.world.snapshot().catalog)
            };
            changes.iter().for_each(tell_change);
            Ok(history)
        };
        tokio::time::timeout(Duration::from_millis(STORE_MS_MAX), changing).await.map_err(|_| slow())?
    }

    /// Reads what is held back before the first call. Holds that were announced when they happened are not announced as news again.
    pub(crate) async fn recall_first(&self) -> Result<(), JournalError> {
        let changes = self.learn().await?;
        let held = changes.iter().filter(|change| !change.now.is_open()).map(|change| change.tool.as_str());
        let tools = held.collect::<Vec<_>>().join(", ");
        if !tools.is_empty() {
            tracing::warn!(
                tools,
                "tools are held back for what they did or by an operator; `servanda quarantine list` says why"
            );
        }
        Ok(())
    }

    /// Reads what is held back from the notes, and announces what is new. On an error everything stays as it is known.
    pub(crate) async fn recall(&self) -> Result<(), JournalError> {
        self.learn().await?.iter().for_each(tell_change);
        Ok(())
    }

    async fn learn(&self) -> Result<Vec<StandingChange>, JournalError> {
        let _turn = self.turn.lock().await;
        let recalling = async {
            let saved = self.save().await;
            let histories = histories(self.notebook.as_ref(), self.clock.now()).await?;
            saved.map(|()| histories)
        };
        let histories = tokio::time::timeout(Duration::from_millis(STORE_MS_MAX), recalling).await;
        let histories = histories.map_err(|_| JournalError::new("the store took too long"))??;
        let mut known = self.state();
        let held = histories.into_iter().filter_map(|history| Some((history.tool.clone(), history.held()?)));
        let mut held: BTreeMap<UpstreamToolKey, HeldTool> = held.collect();
        // Events that happened while the notes were read are in none of them.
        let unsaved = known.unsaved.keys().filter_map(|tool| Some((tool.clone(), known.held.get(tool)?.clone())));
        held.extend(unsaved);
        known.held = held;
        Ok(known.apply_to(&self.world.snapshot().catalog))
    }

    /// Puts the events of this process on record. Called by the task that has the turn.
    async fn save(&self) -> Result<(), JournalError> {
        let unsaved = self.state().unsaved.clone();
        for (tool, event) in unsaved {
            record_event(self.notebook.as_ref(), &tool, event.clone(), self.clock.now()).await?;
            let mut known = self.state();
            // A newer event of the tool is not on record yet.
            if known.unsaved.get(&tool) == Some(&event) {
                known.unsaved.remove(&tool);
            }
        }
        Ok(())
    }

    /// Enforces the known holds in a catalog.
    pub(crate) fn apply_to(&self, catalog: &Catalog) {
        let changes = self.state().apply_to(catalog);
        drop(changes);
    }

    fn state(&self) -> MutexGuard<'_, QuarantineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuarantineState {
    /// Called under the lock, so that the later of two updates counts.
    fn apply_to(&self, catalog: &Catalog) -> Vec<StandingChange> {
        let held: Vec<HeldTool> = self.held.values().cloned().collect();
        catalog.quarantine(&held)
    }
}
