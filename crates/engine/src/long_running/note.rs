//! What is kept about a long work beside its effect: the last progress, that a cancellation was asked for, and where an
//! upstream works on it. Each under a key of its own, so that no two of them overwrite each other.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use servanda_contract::Timestamp;
use servanda_effects::{
    JournalError, Note, NoteKind, Notebook,
    effect::{Effect, EffectId},
};
use servanda_mcp::Era;

use crate::core::Core;

/// The longest such a note is kept.
const KEPT_MS_MAX: u64 = 30 * 86_400_000;
/// The longest text about progress.
const MESSAGE_CHARS_MAX: usize = 500;

/// How far a long work said it had come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkProgress {
    /// So much is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// Of so much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In the upstream's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it said so.
    pub at_ms: u64,
}

/// That somebody does not want it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cancellation {
    pub(super) at_ms: u64,
}

/// Where an upstream works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SubmittedWork {
    /// Which time of the effect: of an earlier one it says nothing.
    pub(super) epoch: u64,
    /// How it is asked about.
    pub(super) place: SubmittedWorkId,
    /// When it was asked about last: whoever has not done so for a while does not do it any more.
    pub(super) asked_at_ms: u64,
    /// Until when it may take.
    pub(super) until_ms: u64,
}

/// What it is called at its upstream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SubmittedWorkId {
    /// A task of the protocol.
    Task { theirs: String, modern: bool, poll_ms: Option<u64> },
    /// An operation that the contract says how to ask about.
    Operation { id: serde_json::Value },
}

/// What a note is about.
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
    /// What a server says in a notification, in as many characters as are kept.
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

    /// What a server says about the state of its task.
    pub(super) fn from_status(message: &str, now: Timestamp) -> Self {
        Self { progress: None, total: None, message: Some(shown(message)), at_ms: now.unix_ms() }
    }

    /// In words.
    pub fn in_words(&self) -> String {
        let figures = match (self.progress, self.total) {
            (Some(progress), Some(total)) => Some(format!("{progress} of {total}")),
            (Some(progress), None) => Some(progress.to_string()),
            (None, _) => None,
        };
        let parts: Vec<String> = figures.into_iter().chain(self.message.clone()).collect();
        parts.join(": ")
    }

    /// What is kept of a work, for whoever looks at it without the engine.
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

/// An upstream's text, without what moves a cursor.
fn shown(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).take(MESSAGE_CHARS_MAX).collect()
}

pub(super) async fn keep_progress(core: &Core, effect: &EffectId, progress: &WorkProgress) -> Result<(), JournalError> {
    write(core, effect, progress).await
}

pub(super) async fn progress(core: &Core, id: &EffectId) -> Option<WorkProgress> {
    WorkProgress::load(core.notebook.as_ref(), id, core.clock.now()).await
}

/// Writes down that it is not wanted any more; the first time counts.
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

/// Before the keys of all notes about where works go on.
pub(super) const BEFORE_SUBMITTED: &str = "submitted:";

/// The key of such a note.
pub(super) fn submitted_key(id: &EffectId) -> String {
    key::<SubmittedWork>(id)
}

/// Where works go on, in the order of their handles behind a key.
pub(super) async fn all_submitted(
    core: &Core,
    after: &str,
    limit: u32,
) -> Result<Vec<(EffectId, SubmittedWork)>, JournalError> {
    let notes = core.notebook.list(NoteKind::Work, after, limit, core.clock.now()).await?;
    // Keys of other notes come behind these.
    let ids = notes.iter().map_while(|note| Some((note.key.strip_prefix(BEFORE_SUBMITTED)?, &note.value)));
    let of = |(id, value): (&str, &String)| Some((EffectId::from(id.to_owned()), serde_json::from_str(value).ok()?));
    Ok(ids.filter_map(of).collect())
}

/// It goes on nowhere any more.
pub(super) async fn forget_submitted(core: &Core, id: &EffectId) {
    if let Err(error) = core.notebook.erase(NoteKind::Work, &submitted_key(id)).await {
        tracing::debug!(effect = %id, %error, "a note of a work that ended could not be erased");
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
