//! What is stored about long work beside its effect: the last progress, a requested cancellation, and where an upstream continues the
//! work. Each has its own key, so that none overwrites another.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use servanda_contract::Timestamp;
use servanda_effects::{
    JournalError, Note, NoteKind, Notebook,
    effect::{Effect, EffectId},
};
use servanda_mcp::Era;

use crate::core::Core;

/// The longest time that such a note is stored.
const KEPT_MS_MAX: u64 = 30 * 86_400_000;
/// The longest progress message, in characters.
const MESSAGE_CHARS_MAX: usize = 500;

/// The last progress that long work reported.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkProgress {
    /// How much is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How much there is to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// The upstream's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the upstream reported it.
    pub at_ms: u64,
}

/// A requested cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cancellation {
    pub(super) at_ms: u64,
}

/// Where an upstream continues the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubmittedWork {
    /// The epoch of the effect's claim; the note says nothing about other epochs.
    pub(super) epoch: u64,
    /// The id by which the upstream is asked.
    pub(super) place: SubmittedWorkId,
    /// When the work was last asked about. If that was a while ago, its follower is gone.
    pub(super) asked_at_ms: u64,
    /// When the work's time is over.
    pub(super) until_ms: u64,
}

/// The id of the work at its upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SubmittedWorkId {
    /// A task of the protocol.
    Task { theirs: String, modern: bool, poll_ms: Option<u64> },
    /// An operation whose contract says how to ask about it.
    Operation { id: serde_json::Value },
}

/// A kind of note, with the prefix of its keys.
trait LongWorkNote: Serialize + DeserializeOwned {
    const PREFIX: &'static str;
}

impl LongWorkNote for WorkProgress {
    const PREFIX: &'static str = "progress";
}

impl LongWorkNote for Cancellation {
    const PREFIX: &'static str = "cancellation";
}

impl LongWorkNote for SubmittedWork {
    const PREFIX: &'static str = "submitted";
}

impl WorkProgress {
    /// Parses a server's progress notification and shortens its message.
    pub(super) fn parse(params: &str, now: Timestamp) -> Option<Self> {
        #[derive(Deserialize)]
        struct WorkProgressParams {
            #[serde(default)]
            progress: Option<f64>,
            #[serde(default)]
            total: Option<f64>,
            #[serde(default)]
            message: Option<String>,
        }
        let WorkProgressParams { progress, total, message } = serde_json::from_str(params).ok()?;
        progress.is_some().then(|| Self {
            progress,
            total,
            message: message.as_deref().map(shown),
            at_ms: now.unix_ms(),
        })
    }

    /// The progress of a server's message about the state of its task.
    pub(super) fn from_status(message: &str, now: Timestamp) -> Self {
        Self { progress: None, total: None, message: Some(shown(message)), at_ms: now.unix_ms() }
    }

    /// The progress as text.
    pub fn in_words(&self) -> String {
        let figures = match (self.progress, self.total) {
            (Some(progress), Some(total)) => Some(format!("{progress} of {total}")),
            (Some(progress), None) => Some(progress.to_string()),
            (None, _) => None,
        };
        let parts: Vec<String> = figures.into_iter().chain(self.message.clone()).collect();
        parts.join(": ")
    }

    /// Reads the stored progress, for readers without an engine.
    pub async fn load(notebook: &dyn Notebook, id: &EffectId, now: Timestamp) -> Option<Self> {
        let note = notebook.read(NoteKind::Work, &key::<Self>(id), now).await.ok()??;
        serde_json::from_str(&note.value).ok()
    }
}

impl SubmittedWorkId {
    pub(super) fn era(modern: bool) -> Era {
        if modern { Era::Modern } else { Era::Legacy }
    }
}

/// An upstream's text without control characters, shortened.
fn shown(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).take(MESSAGE_CHARS_MAX).collect()
}

pub(super) async fn keep_progress(core: &Core, effect: &EffectId, progress: &WorkProgress) -> Result<(), JournalError> {
    write(core, effect, progress).await
}

pub(super) async fn progress(core: &Core, id: &EffectId) -> Option<WorkProgress> {
    WorkProgress::load(core.notebook.as_ref(), id, core.clock.now()).await
}

/// Stores a cancellation request. Only the first one counts.
pub(super) async fn ask_cancellation(core: &Core, effect: &Effect) -> Result<(), JournalError> {
    write(core, &effect.id, &Cancellation { at_ms: core.clock.now().unix_ms() }).await
}

pub(super) async fn cancellation(core: &Core, id: &EffectId) -> Option<Cancellation> {
    read(core, id).await
}

pub(super) async fn keep_submitted(core: &Core, id: &EffectId, submitted: &SubmittedWork) -> Result<(), JournalError> {
    write(core, id, submitted).await
}

pub(super) async fn submitted(core: &Core, id: &EffectId) -> Option<SubmittedWork> {
    read(core, id).await
}

/// The prefix of the keys of all notes about submitted work.
pub(super) const BEFORE_SUBMITTED: &str = "submitted:";

/// The key of a note about submitted work.
pub(super) fn submitted_key(id: &EffectId) -> String {
    key::<SubmittedWork>(id)
}

/// The notes about submitted work after a key, ordered by handle.
pub(super) async fn all_submitted(
    core: &Core,
    after: &str,
    limit: u32,
) -> Result<Vec<(EffectId, SubmittedWork)>, JournalError> {
    let notes = core.notebook.list(NoteKind::Work, after, limit, core.clock.now()).await?;
    // The keys of other kinds of notes come after these.
    let ids = notes.iter().map_while(|note| Some((note.key.strip_prefix(BEFORE_SUBMITTED)?, &note.value)));
    let of = |(id, value): (&str, &String)| Some((EffectId::from(id.to_owned()), serde_json::from_str(value).ok()?));
    Ok(ids.filter_map(of).collect())
}

/// Erases the note about submitted work that has ended.
pub(super) async fn forget_submitted(core: &Core, id: &EffectId) {
    if let Err(error) = core.notebook.erase(NoteKind::Work, &submitted_key(id)).await {
        tracing::debug!(effect = %id, %error, "the note of long work that ended could not be erased");
    }
}

fn key<T: LongWorkNote>(id: &EffectId) -> String {
    format!("{}:{id}", T::PREFIX)
}

async fn write<T: LongWorkNote>(core: &Core, id: &EffectId, about: &T) -> Result<(), JournalError> {
    let value = serde_json::to_string(about).map_err(|error| JournalError::new(error.to_string()))?;
    let expires_at = Some(Timestamp::from_unix_ms(core.clock.now().unix_ms().saturating_add(KEPT_MS_MAX)));
    core.notebook.write(Note { kind: NoteKind::Work, key: key::<T>(id), value, expires_at }).await
}

async fn read<T: LongWorkNote>(core: &Core, id: &EffectId) -> Option<T> {
    let note = core.notebook.read(NoteKind::Work, &key::<T>(id), core.clock.now()).await.ok()??;
    serde_json::from_str(&note.value).ok()
}
