//! What is stored about a task, so that it can be asked about after a restart: its owner, where it runs, and the record of its call.
//! Another principal's task is treated as if it did not exist.

use serde::{Deserialize, Serialize};
use servanda_contract::{CallRecord, Timestamp, record::QuestionRecord, tool::QuestionKind};
use servanda_effects::{
    JournalError, Note, NoteKind,
    effect::{Claim, EffectId},
};
use servanda_mcp::{Era, RpcError};

use crate::{
    answers::refusals::invalid_params, call_visibility::PastCall, client::Requester, core::Core,
    deferred::DeferredContext, questions::QUESTIONS_MAX, task_shape::CreatedTask,
};

/// How long a task is stored: at most, and if its server names no time.
const KEPT_MS_MAX: u64 = 30 * 86_400_000;
/// How much longer than the server promises a task is stored here, because the server counts by its own clock.
const GRACE_MS: u64 = 60_000;

/// A stored task, under our id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskNote {
    pub(super) version: u32,
    pub(crate) upstream: String,
    pub(crate) theirs: String,
    #[serde(with = "era")]
    pub(crate) upstream_era: Era,
    /// The era of the requester that the task was made for.
    #[serde(with = "era")]
    #[serde(rename = "guest_era")]
    pub(crate) requester_era: Era,
    /// The name of the contract.
    pub(super) contract: String,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Timestamp,
    /// Whether the task's end is recorded.
    pub(super) settled: bool,
    /// The record of the call, as it was when the call became a task.
    pub(super) record: CallRecord,
    /// The effect that the task's end settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<EffectNote>,
    /// The resources that the call changes and reads, by name. A note without this member may touch any resource.
    #[serde(default = "anything")]
    pub(super) touches: Vec<String>,
    /// The kinds of questions that the server may not ask the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused_questions: Vec<QuestionKind>,
}

/// An effect, and the epoch of its claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EffectNote {
    id: EffectId,
    epoch: u64,
}

const VERSION: u32 = 1;

impl TaskNote {
    pub(super) fn new(
        upstream: &str,
        created: &CreatedTask,
        requester_era: Era,
        record: CallRecord,
        now: Timestamp,
    ) -> Self {
        let kept_ms = created.ttl_ms.map_or(KEPT_MS_MAX, |ttl_ms| ttl_ms.saturating_add(GRACE_MS)).min(KEPT_MS_MAX);
        Self {
            version: VERSION,
            upstream: upstream.to_owned(),
            theirs: created.theirs.clone(),
            upstream_era: created.era,
            requester_era,
            contract: record.contract.as_ref().map(|contract| contract.name.clone()).unwrap_or_default(),
            created_at: now,
            expires_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(kept_ms)),
            settled: false,
            record,
            effect: None,
            touches: anything(),
            refused_questions: Vec::new(),
        }
    }

    /// The same for a call that changes and reads these resources.
    pub(super) fn touching(self, touches: Vec<String>) -> Self {
        Self { touches, ..self }
    }

    /// The same for a call whose server may not ask these kinds of questions.
    pub(super) fn refusing(self, refused_questions: Vec<QuestionKind>) -> Self {
        Self { refused_questions, ..self }
    }

    /// The same for a call that is an effect.
    pub(super) fn settling(self, claim: Option<Claim>) -> Self {
        Self { effect: claim.map(|Claim { id, epoch }| EffectNote { id, epoch }), ..self }
    }

    /// Adds the server's questions. Returns false if all of them are there already.
    pub(super) fn add_questions(&mut self, asked: Vec<QuestionRecord>) -> bool {
        let questions = &mut self.record.questions;
        let before = questions.len();
        for question in asked {
            if !questions.contains(&question) && questions.len() < QUESTIONS_MAX {
                questions.push(question);
            }
        }
        questions.len() > before
    }

    /// The claim by which the task's end settles its effect.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.effect.clone().map(|EffectNote { id, epoch }| Claim { id, epoch })
    }

    fn is_visible_to(&self, core: &Core, requester: &Requester) -> bool {
        let Self { record, contract, touches, .. } = self;
        let program_class = record.policy.as_ref().and_then(|policy| policy.program_class);
        let past = PastCall { owner: &record.caller, exposed_tool: &record.tool, contract, touches, program_class };
        self.version == VERSION && past.is_visible_to(requester, &core.snapshot(), core.clock.now())
    }
}

fn anything() -> Vec<String> {
    vec!["*".to_owned()]
}

pub(super) async fn write(deferred: &DeferredContext, ours: &str, note: &TaskNote) -> Result<(), JournalError> {
    let value = serde_json::to_string(note).map_err(|error| JournalError::new(error.to_string()))?;
    let (key, expires_at) = (ours.to_owned(), Some(note.expires_at));
    deferred.core.notebook.write(Note { kind: NoteKind::Task, key, value, expires_at }).await?;
    deferred.tasks.insert(&note.upstream, &note.theirs, ours);
    Ok(())
}

/// Stores the questions of a task, unless its end is recorded already.
pub(super) async fn write_questions(deferred: &DeferredContext, ours: &str, note: &TaskNote) {
    let Some(mut kept) = read(deferred, ours).await.filter(|kept| !kept.settled) else { return };
    if kept.add_questions(note.record.questions.clone())
        && let Err(error) = write(deferred, ours, &kept).await
    {
        tracing::warn!(%error, task = ours, "the questions of a task could not be stored");
    }
}

/// Finds a task that the requester may see.
pub(crate) async fn find(deferred: &DeferredContext, requester: &Requester, ours: &str) -> Result<TaskNote, RpcError> {
    let note = read(deferred, ours).await.filter(|note| note.is_visible_to(&deferred.core, requester));
    note.ok_or_else(|| invalid_params("there is no such task, or it has expired"))
}

/// Reads a task without checking whose it is, for announcements of upstreams.
pub(super) async fn read(deferred: &DeferredContext, ours: &str) -> Option<TaskNote> {
    let core = &deferred.core;
    // Tasks and lists of tasks share a kind. Our task ids never begin like the key of a list.
    let note = core.notebook.read(NoteKind::Task, ours, core.clock.now()).await.ok()??;
    let note: TaskNote = serde_json::from_str(&note.value).ok()?;
    deferred.tasks.insert(&note.upstream, &note.theirs, ours);
    Some(note)
}

/// Writes and reads eras by name.
mod era {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use servanda_mcp::Era;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(super) fn serialize<S: Serializer>(era: &Era, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match era {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        })
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Era, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "legacy" => Ok(Era::Legacy),
            "modern" => Ok(Era::Modern),
            other => Err(D::Error::custom(format!("no era: `{other}`"))),
        }
    }
}
