//! One event on its way to one callback: what is stored about it, which process delivers it, and what follows an attempt.

use serde::{Deserialize, Serialize};
use servanda_contract::{Timestamp, faults};
use servanda_effects::{JournalError, Note, NoteKind, Notebook, effect::OwnerId};
use servanda_upstream::{WebhookResponse, WebhookSendError};

use super::event::CallbackEvent;

/// How long a receiver may take to answer.
pub const ANSWER_MS_MAX: u64 = 15_000;
const VERSION: u32 = 1;
/// How long a delivery that was given up stays visible to operators.
const GIVEN_UP_KEPT_MS: u64 = 30 * 86_400_000;
/// How many deliveries a page has, and how many a list.
pub(crate) const PAGE: u32 = 256;
const LISTED_MAX: usize = 1_000;
/// How long after the due time another process takes a delivery over. An owner that is alive has made its attempt by then.
const TAKEOVER_MS: u64 = ANSWER_MS_MAX + 5_000;
/// The longest `Retry-After` of a receiver that the gateway follows.
const RETRY_AFTER_MS_MAX: u64 = 4 * 3_600_000;

/// One event on its way to one callback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackDelivery {
    version: u32,
    /// The callback, by its name.
    pub callback: String,
    /// The id by which the receiver recognises the event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// The body, byte for byte as it is sent.
    pub(crate) body: String,
    /// When the event happened.
    pub created_at: Timestamp,
    /// The process that delivers it; any process if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<OwnerId>,
    /// How many attempts were made.
    pub attempts: u32,
    /// When the first attempt was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_tried_at: Option<Timestamp>,
    /// When the next attempt is due.
    pub due_at: Timestamp,
    /// The outcome of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// When the gateway gave up, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up_at: Option<Timestamp>,
}

/// How often and how long a delivery is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallbackRetryPolicy {
    pub(crate) attempts_max: u32,
    pub(crate) whole_ms_max: u64,
    pub(crate) first_wait_ms: u64,
    pub(crate) wait_ms_max: u64,
}

/// What follows an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DeliveryStep {
    /// The receiver has accepted the event.
    Done,
    /// The delivery is tried again.
    Later(CallbackDelivery),
    /// The gateway gives up.
    GivenUp(CallbackDelivery),
}

/// Whether this process delivers the event now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryTurn {
    /// This process delivers it now.
    Now,
    /// This process may deliver it then, if it is still pending.
    At(Timestamp),
    /// The delivery was given up.
    NotOurs,
}

impl Default for CallbackRetryPolicy {
    /// 5 s, 15 s, 45 s and so on up to 4 h: twelve attempts in 16 hours.
    fn default() -> Self {
        Self { attempts_max: 12, whole_ms_max: 24 * 3_600_000, first_wait_ms: 5_000, wait_ms_max: 4 * 3_600_000 }
    }
}

/// Decides what follows an attempt. `random` is any number.
pub(crate) fn after_attempt(
    delivery: CallbackDelivery,
    attempted: &Result<WebhookResponse, WebhookSendError>,
    now: Timestamp,
    random: u64,
    retry_policy: CallbackRetryPolicy,
) -> DeliveryStep {
    let (last, retry_after_ms) = match attempted {
        Ok(WebhookResponse { status: 200..=299, .. }) => return DeliveryStep::Done,
        Ok(WebhookResponse { status: status @ (429 | 503), retry_after_ms }) => {
            (format!("HTTP status {status}"), retry_after_ms.unwrap_or_default())
        }
        Ok(WebhookResponse { status, .. }) => (format!("HTTP status {status}"), 0),
        Err(WebhookSendError(why)) => (why.clone(), 0),
    };
    let first_tried_at = delivery.first_tried_at.unwrap_or(now);
    let attempts = delivery.attempts.saturating_add(1);
    let tried = CallbackDelivery { attempts, first_tried_at: Some(first_tried_at), last: Some(last), ..delivery };
    let is_gone = matches!(attempted, Ok(WebhookResponse { status: 410, .. }));
    let is_over = attempts >= retry_policy.attempts_max || now.since_ms(first_tried_at) >= retry_policy.whole_ms_max;
    if is_gone || is_over {
        return DeliveryStep::GivenUp(CallbackDelivery { given_up_at: Some(now), due_at: now, ..tried });
    }
    let wait_ms = backoff_ms(attempts, random, retry_policy).max(retry_after_ms.min(RETRY_AFTER_MS_MAX));
    DeliveryStep::Later(CallbackDelivery {
        due_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(wait_ms)),
        ..tried
    })
}

/// Three times as long each time, plus or minus a fifth, so that deliveries that failed together are not retried together.
fn backoff_ms(attempts: u32, random: u64, retry_policy: CallbackRetryPolicy) -> u64 {
    let factor = 3u64.saturating_pow(attempts.saturating_sub(1));
    let whole_ms = retry_policy.first_wait_ms.saturating_mul(factor).min(retry_policy.wait_ms_max);
    let spread_ms = whole_ms / 5;
    whole_ms - spread_ms + random % (2 * spread_ms + 1)
}

impl CallbackDelivery {
    pub(super) fn new(callback: &str, event: &CallbackEvent, owner: Option<OwnerId>, now: Timestamp) -> Self {
        Self {
            version: VERSION,
            callback: callback.to_owned(),
            event_id: event.id.clone(),
            event_type: event.kind.to_owned(),
            body: event.body.clone(),
            created_at: event.at,
            owner,
            attempts: 0,
            first_tried_at: None,
            due_at: now,
            last: None,
            given_up_at: None,
        }
    }

    /// The same with another owner.
    pub(crate) fn owned_by(self, owner: &OwnerId) -> Self {
        Self { owner: Some(owner.clone()), ..self }
    }

    /// The stored form. A delivery that is under way does not expire.
    pub(crate) fn note(&self) -> Note {
        let expires_at =
            self.given_up_at.map(|at| Timestamp::from_unix_ms(at.unix_ms().saturating_add(GIVEN_UP_KEPT_MS)));
        let key = format!("{} {}", self.event_id, self.callback);
        Note { kind: NoteKind::Delivery, key, value: servanda_mcp::envelope::to_json(self), expires_at }
    }

    /// Reads the stored form; none for a delivery that a newer version wrote.
    pub(crate) fn from_note(note: &Note) -> Option<Self> {
        serde_json::from_str(&note.value).ok().filter(|delivery: &Self| delivery.version == VERSION)
    }

    /// Whether this process may deliver the event now. It takes over from another owner only when the delivery is so old that a living
    /// owner would have made its attempt.
    pub(crate) fn turn(&self, own: &OwnerId, now: Timestamp) -> DeliveryTurn {
        if self.given_up_at.is_some() {
            return DeliveryTurn::NotOurs;
        }
        let retry_policy_ms = match &self.owner {
            Some(owner) if owner != own => faults::limit_ms("SERVANDA_TAKEOVER_MS", TAKEOVER_MS),
            _ => 0,
        };
        let from = Timestamp::from_unix_ms(self.due_at.unix_ms().saturating_add(retry_policy_ms));
        if from <= now { DeliveryTurn::Now } else { DeliveryTurn::At(from) }
    }
}

/// Deliveries that are under way or were given up, the oldest first.
pub async fn deliveries(notebook: &dyn Notebook, now: Timestamp) -> Result<Vec<CallbackDelivery>, JournalError> {
    let mut found: Vec<CallbackDelivery> = Vec::new();
    let mut after = String::new();
    while found.len() < LISTED_MAX {
        let page = notebook.list(NoteKind::Delivery, &after, PAGE, now).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.key);
        found.extend(page.iter().filter_map(CallbackDelivery::from_note));
    }
    found.sort_by_key(|delivery| delivery.created_at);
    Ok(found)
}
