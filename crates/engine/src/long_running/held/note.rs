//! What is stored about a held task: the call as it was made, its ticket, and how the task ended without an effect. The arguments are not
//! stored again, because the ticket has them.

use std::sync::Arc;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use servanda_approval::{Ticket, TicketId, TicketKey};
use servanda_contract::{
    CallId, Caller, Digest, OperationKeys, Proposal, Refusal, Timestamp, ToolContract, expectation::Aims,
    tool::SideEffectClass,
};
use servanda_effects::{JournalError, Note, NoteKind, effect::EffectKey};

use crate::core::Core;

const VERSION: u32 = 1;
/// How long a held task is stored after its ticket's time is over, so that its client still learns how it ended.
const KEPT_MS: u64 = 7 * 86_400_000;

/// A held task, as stored under its id.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldTaskNote {
    version: u32,
    /// The ticket that the call waits for now.
    pub(crate) ticket: TicketId,
    /// What every ticket of the call is looked up by.
    pub(crate) ticket_key: TicketKey,
    /// The call that became the task.
    pub(crate) call_id: CallId,
    pub(crate) trace_id: String,
    pub(crate) caller: Arc<Caller>,
    /// The exposed name as called.
    pub(crate) tool: String,
    pub(crate) contract: String,
    pub(crate) contract_version: String,
    pub(crate) chain: String,
    #[serde(default, skip_serializing_if = "StoredKeys::is_empty")]
    keys: StoredKeys,
    #[serde(default, skip_serializing_if = "StoredAims::is_empty")]
    aims: StoredAims,
    /// The operation that the client named, if it named one, and what it is to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<HeldOperation>,
    /// The names of what the call changes and reads.
    pub(crate) touches: Vec<String>,
    /// How severe it is, if the program in its arguments decides that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program_class: Option<SideEffectClass>,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    /// Whether the client was sent to the ticket's page.
    #[serde(default)]
    pub(crate) was_sent_to_page: bool,
}

/// An operation that a client named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldOperation {
    pub(crate) key: EffectKey,
    /// The digest of what is requested under the key.
    pub(crate) request: Digest,
}

/// How and when a held task ended without an effect of its own. The first end that is stored counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeldTaskEnd {
    pub(crate) at: Timestamp,
    pub(crate) how: HeldTaskEnding,
}

/// How a held task ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HeldTaskEnding {
    /// The repeated call was refused: denied by a person, lapsed, or by another gate.
    Refused(Box<Refusal>),
    /// The repeated call was answered without an effect of its own: the members of the tool result.
    Answered(String),
    /// The client cancelled it.
    Cancelled,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredKeys {
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    header_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoredAims {
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    like: Option<String>,
}

impl HeldTaskNote {
    /// The task of a call that waits for this ticket.
    pub(crate) fn new(ticket: &Ticket, proposal: &Proposal, contract: &ToolContract, now: Timestamp) -> Self {
        let OperationKeys { idempotency_key, header_key, operation_id, step_id, workflow_id, run_id } =
            proposal.keys.clone();
        let Aims { task, intent, like } = proposal.aims.clone();
        let waits_ms = ticket.demand.decide_within_ms.saturating_add(ticket.demand.use_within_ms);
        Self {
            version: VERSION,
            ticket: ticket.id.clone(),
            ticket_key: ticket.key,
            call_id: proposal.call_id.clone(),
            trace_id: proposal.trace_id.clone(),
            caller: Arc::clone(&proposal.caller),
            tool: proposal.tool.clone(),
            contract: contract.identity.name.clone(),
            contract_version: contract.identity.version.clone(),
            chain: proposal.chain.clone(),
            keys: StoredKeys { idempotency_key, header_key, operation_id, step_id, workflow_id, run_id },
            aims: StoredAims { task, intent, like },
            operation: None,
            touches: Vec::new(),
            program_class: None,
            created_at: now,
            expires_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(waits_ms).saturating_add(KEPT_MS)),
            was_sent_to_page: false,
        }
    }

    /// What the client said about which operation the call is.
    pub(crate) fn keys(&self) -> OperationKeys {
        let StoredKeys { idempotency_key, header_key, operation_id, step_id, workflow_id, run_id } = self.keys.clone();
        OperationKeys { idempotency_key, header_key, operation_id, step_id, workflow_id, run_id }
    }

    /// What the client said the call is for.
    pub(crate) fn aims(&self) -> Aims {
        let StoredAims { task, intent, like } = self.aims.clone();
        Aims { task, intent, like }
    }
}

impl StoredKeys {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl StoredAims {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

pub(super) async fn read(core: &Core, id: &str) -> Option<HeldTaskNote> {
    let note: HeldTaskNote = read_json(core, &format!("held:{id}")).await?;
    (note.version == VERSION).then_some(note)
}

pub(super) async fn write(core: &Core, id: &str, note: &HeldTaskNote) -> Result<(), JournalError> {
    core.notebook.write(to_note(format!("held:{id}"), note, note.expires_at)?).await
}

pub(super) async fn end(core: &Core, id: &str) -> Option<HeldTaskEnd> {
    read_json(core, &format!("held-end:{id}")).await
}

/// Stores how the task ended, unless an end is stored already, and returns the one that is there afterwards.
pub(super) async fn write_end(
    core: &Core,
    id: &str,
    note: &HeldTaskNote,
    how: HeldTaskEnding,
) -> Result<HeldTaskEnd, JournalError> {
    let end = HeldTaskEnd { at: core.clock.now(), how };
    let kept = core.notebook.write_first(to_note(format!("held-end:{id}"), &end, note.expires_at)?).await?;
    serde_json::from_str(&kept.value).map_err(|error| JournalError::new(error.to_string()))
}

/// Whether a call was made by a gateway to go on with this task.
pub(super) async fn is_repetition(core: &Core, id: &str, call_id: &CallId) -> bool {
    let found = core.notebook.read(NoteKind::Work, &repetition_key(id, call_id), core.clock.now()).await;
    matches!(found, Ok(Some(_)))
}

/// Stores that a gateway makes this call to go on with the task. Written before the call, so that its effect is known as the task's.
pub(super) async fn write_repetition(
    core: &Core,
    id: &str,
    note: &HeldTaskNote,
    call_id: &CallId,
) -> Result<(), JournalError> {
    core.notebook.write(to_note(repetition_key(id, call_id), &true, note.expires_at)?).await
}

fn repetition_key(id: &str, call_id: &CallId) -> String {
    format!("held-by:{id}:{call_id}")
}

fn to_note<T: Serialize>(key: String, value: &T, expires_at: Timestamp) -> Result<Note, JournalError> {
    let value = serde_json::to_string(value).map_err(|error| JournalError::new(error.to_string()))?;
    Ok(Note { kind: NoteKind::Work, key, value, expires_at: Some(expires_at) })
}

async fn read_json<T: DeserializeOwned>(core: &Core, key: &str) -> Option<T> {
    let note = core.notebook.read(NoteKind::Work, key, core.clock.now()).await.ok()??;
    serde_json::from_str(&note.value).ok()
}
