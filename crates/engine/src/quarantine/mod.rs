//! Tools that are held back for what they did or because a person wants it: kept in the notebook, in force in the catalog.
//!
//! A tool that this process saw lying is held back here before anything is written down; what is not on record yet is offered
//! again with every look at the notes, and is not let go meanwhile. What other gateways and operators wrote is learned from
//! the notes every few seconds. Two writers at the same moment: the last one counts, as with any note.

mod history;
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

pub(crate) use self::history::GATEWAY;
pub use self::history::{ObservedChange, QuarantineEvent, QuarantineEventKind, QuarantineHistory, UpstreamToolKey};
use crate::world::{PresentWorld, discovery::tell_change};

/// Notes that are read at once, and pages of them at the most.
const PAGE: u32 = 256;
const PAGES_MAX: usize = 64;
/// How long the store may take.
const STORE_MS_MAX: u64 = 5_000;

/// What is held back, as this process knows it.
#[derive(Debug)]
pub(crate) struct Quarantine {
    notebook: Arc<dyn Notebook>,
    clock: Arc<dyn Clock>,
    world: Arc<PresentWorld>,
    state: Mutex<QuarantineState>,
    /// One at a time reads the notes or writes one: what is read is never older than what was written here.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct QuarantineState {
    held: BTreeMap<UpstreamToolKey, HeldTool>,
    /// What happened here and is not on record yet.
    unsaved: BTreeMap<UpstreamToolKey, QuarantineEvent>,
}

/// Every tool that is or was held back.
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
                tracing::error!(key = note.key, "a note about a quarantine is about no tool");
            }
        }
    }
    // A hold that was not read would be none.
    Err(JournalError::new("there are too many notes about quarantines"))
}

/// Writes down what happened to a tool, and returns all that did.
pub async fn record_event(
    notebook: &dyn Notebook,
    tool: &UpstreamToolKey,
    event: QuarantineEvent,
    now: Timestamp,
) -> Result<QuarantineHistory, JournalError> {
    let note = notebook.read(NoteKind::Quarantine, &tool.to_key(), now).await?;
    let mut history =
        note.as_ref().and_then(QuarantineHistory::from_note).unwrap_or_else(|| QuarantineHistory::new(tool.clone()));
    history.add(event);
    notebook.write(history.note()?).await?;
    Ok(history)
}

impl Quarantine {
    pub(crate) fn new(notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>, world: Arc<PresentWorld>) -> Self {
        Self { notebook, clock, world, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Holds a tool back: here before this returns, and on record if the store takes it in time.
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
                "that a tool is held back is not on record yet; other gateways do not know of it"
            ),
            Err(_) => tracing::error!(
                upstream = tool.upstream,
                tool = tool.tool,
                "the ledger is too slow; that a tool is held back may not be on record yet"
            ),
        }
    }

    /// Learns what is held back before the first call. What was told when it happened is not told as news again.
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

    /// Learns what is held back from the notes, and tells what is new. On an error everything stays as it is known.
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
        // What happened while the notes were read is in none of them.
        let unsaved = known.unsaved.keys().filter_map(|tool| Some((tool.clone(), known.held.get(tool)?.clone())));
        held.extend(unsaved);
        known.held = held;
        Ok(known.apply_to(&self.world.snapshot().catalog))
    }

    /// Puts what happened here on record. Called by the task that has the turn.
    async fn save(&self) -> Result<(), JournalError> {
        let unsaved = self.state().unsaved.clone();
        for (tool, event) in unsaved {
            record_event(self.notebook.as_ref(), &tool, event.clone(), self.clock.now()).await?;
            let mut known = self.state();
            // What happened to it since is not on record.
            if known.unsaved.get(&tool) == Some(&event) {
                known.unsaved.remove(&tool);
            }
        }
        Ok(())
    }

    /// Has what is known hold in a catalog.
    pub(crate) fn apply_to(&self, catalog: &Catalog) {
        let changes = self.state().apply_to(catalog);
        drop(changes);
    }

    fn state(&self) -> MutexGuard<'_, QuarantineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QuarantineState {
    /// While nobody can learn more: of two at once the later one counts.
    fn apply_to(&self, catalog: &Catalog) -> Vec<StandingChange> {
        let held: Vec<HeldTool> = self.held.values().cloned().collect();
        catalog.quarantine(&held)
    }
}
