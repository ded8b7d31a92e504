//! The list of a principal's tasks, in the notebook: long work of this gateway and tasks of upstreams together, the oldest first.

use serde::{Deserialize, Serialize};
use servanda_contract::{Caller, Timestamp};
use servanda_effects::{JournalError, Note, NoteKind};
use tokio::sync::Mutex as AsyncMutex;

use super::view::LongWorkView;
use crate::core::Core;

/// How many tasks of one principal are listed; the oldest is dropped first.
const LISTED_MAX: usize = 200;

/// How often a list is written while other gateways change it.
const WRITES_MAX: usize = 32;

/// The lists of all principals.
#[derive(Debug, Default)]
pub(crate) struct TaskLists {
    /// Held while a list is read and written back, so that the calls of this gateway wait for each other instead of trying again.
    writing: AsyncMutex<()>,
}

impl TaskLists {
    /// Adds a task to the list of its principal.
    pub(crate) async fn add(
        &self,
        core: &Core,
        caller: &Caller,
        ours: &str,
        expires_at: Timestamp,
    ) -> Result<(), JournalError> {
        let _alone = self.writing.lock().await;
        for _ in 0..WRITES_MAX {
            let now = core.clock.now();
            let found = core.notebook.read(NoteKind::Task, &list_key(caller), now).await?.map(|note| note.value);
            let mut listed = read(found.as_deref(), now);
            if listed.iter().any(|listed| listed.id == ours) {
                return Ok(());
            }
            listed.push(TaskListEntry { id: ours.to_owned(), expires_at });
            let surplus = listed.len().saturating_sub(LISTED_MAX);
            listed.drain(..surplus);
            let expires_at = listed.iter().map(|listed| listed.expires_at).max();
            let value = serde_json::to_string(&listed).map_err(|error| JournalError::new(error.to_string()))?;
            let note = Note { kind: NoteKind::Task, key: list_key(caller), value, expires_at };
            if core.notebook.write_if(note, found, now).await? {
                return Ok(());
            }
        }
        Err(JournalError::new("other gateways changed the list of tasks all the time"))
    }

    /// Adds long work to its principal's list.
    pub(crate) async fn add_work(&self, core: &Core, seen: &LongWorkView) {
        let (key, order) = (&seen.effect.key, &seen.effect.order);
        let kept_ms = order.timeout_ms.saturating_add(order.dedup_window_ms);
        let expires_at = Timestamp::from_unix_ms(core.clock.now().unix_ms().saturating_add(kept_ms));
        let caller = Caller::named(&key.tenant, &key.principal);
        if let Err(error) = self.add(core, &caller, seen.effect.id.as_str(), expires_at).await {
            tracing::warn!(%error, effect = %seen.effect.id, "long work could not be added to the list of its principal's tasks");
        }
    }

    /// The ids of a principal's tasks, oldest first.
    pub(crate) async fn task_ids(&self, core: &Core, caller: &Caller) -> Vec<String> {
        list(core, caller).await.into_iter().map(|listed| listed.id).collect()
    }
}

async fn list(core: &Core, caller: &Caller) -> Vec<TaskListEntry> {
    let now = core.clock.now();
    let note = core.notebook.read(NoteKind::Task, &list_key(caller), now).await.ok().flatten();
    read(note.as_ref().map(|note| note.value.as_str()), now)
}

/// The entries that have not expired.
fn read(value: Option<&str>, now: Timestamp) -> Vec<TaskListEntry> {
    let listed: Vec<TaskListEntry> = value.and_then(|value| serde_json::from_str(value).ok()).unwrap_or_default();
    listed.into_iter().filter(|listed| now < listed.expires_at).collect()
}

#[derive(Debug, Serialize, Deserialize)]
struct TaskListEntry {
    id: String,
    expires_at: Timestamp,
}

/// Differs from every task id, and for every principal.
fn list_key(caller: &Caller) -> String {
    servanda_mcp::envelope::to_json(&["tasks of", &caller.tenant, &caller.principal])
}
