//! One effect: what a key may do to the world, from the claim to the tombstone. The states, what is kept about an effect,
//! and the port through which stores keep it. Which state follows on what is [`step`]'s to say, for every store alike.
//!
//! Deliberately not here: storage, and the choice of a client's key.

mod clock;
mod fleeting;
mod key;
mod lost;
mod orphan;
mod orphan_query;
mod query;
mod rules;
mod settle;
mod step;
#[cfg(test)]
mod tests;
mod told;
mod turn;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use servanda_contract::{Acting, CallId, CallRecord, Digest, Refusal, tool::EffectClass};

use crate::{JournalError, Note, PortFuture};

pub use clock::{LedgerClock, LedgerNow};
pub use fleeting::FleetingEffects;
pub use key::{ClientKey, EffectId, EffectKey, OwnerId};
pub use lost::LostWindow;
pub use orphan::{is_orphaned, needs_owner};
pub use orphan_query::{ORPHANED_UPSTREAMS_MAX, OrphanPlace, OrphanQuery};
pub use query::{EffectFilter, EffectQuery};
pub use rules::{Rule, Rules};
pub use step::{Circumstances, Step, replay, step};
pub use told::{Concluded, after_attempt, after_settling, concluded, of_concluded, of_key, of_unread_key, unmarked};
pub use turn::{Held, is_in_the_way};

/// Where an effect is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// Somebody is about to do it; nothing was sent.
    Claimed,
    /// Bytes may have left; nobody has said yet how it ended.
    Dispatching,
    /// It is done.
    Completed,
    /// It failed in a way that is final; the failure is the answer.
    FailedFinal,
    /// It provably never ran; it may be tried again.
    FailedRetryable,
    /// It was sent and nobody knows.
    OutcomeUnknown,
    /// It was done and then undone.
    Compensated,
    /// The key was used once and is never used again.
    Expired,
}

/// Everything kept about an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// Its handle.
    pub id: EffectId,
    /// What it is looked up by.
    pub key: EffectKey,
    /// The digest of what was proposed under the key: tenant, tool, canonical arguments.
    pub request: Digest,
    /// What may follow an uncertain dispatch.
    pub class: EffectClass,
    /// Where it is.
    pub state: EffectState,
    /// Counts the owners; whoever holds an older one may change nothing any more.
    pub epoch: u64,
    /// The process that claimed it last.
    pub owner: OwnerId,
    /// The call that claimed it last.
    pub call_id: CallId,
    /// How it is performed.
    pub order: Order,
    /// Until when no other process takes it over, whatever is heard of its owner, in ledger time.
    pub lease_until_ms: u64,
    /// While dispatching: when its owner has given up waiting for an answer, in ledger time.
    pub overdue_at_ms: u64,
    /// While dispatching: what its end waits for, apart from an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<Awaits>,
    /// How often bytes were allowed to leave.
    pub dispatches: u32,
    /// When they first were, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_dispatched_ms: Option<u64>,
    /// The same in ledger time. An upstream's window for a key is over when either says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_dispatched_ledger_ms: Option<u64>,
    /// How it ended, for whoever asks again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<StoredAnswer>,
    /// The last thing known about an end that is none: why it never ran, or why nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who settled it by hand, and on what evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Settlement>,
    /// Evidence that contradicts what the ledger said about it. A person has to look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    /// When it was first claimed, by the store's clock.
    pub created_ms: u64,
    /// When it last changed, by the store's clock.
    pub changed_ms: u64,
    /// When a settled one may become a tombstone, in ledger time.
    pub expires_ms: u64,
}

/// How an effect is performed: enough to send the same bytes again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The exposed name as called.
    pub exposed_tool: String,
    /// The upstream's id in the configuration.
    pub upstream: String,
    /// The tool's own name there.
    pub upstream_tool: String,
    /// The contract's version.
    pub contract_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The key an upstream that dedupes or can be asked is given.
    pub upstream_key: String,
    /// The canonical arguments; a store keeps them apart, and forgets them when nothing can be sent again.
    #[serde(skip)]
    pub arguments: Bytes,
    /// How long a dispatch may take.
    pub timeout_ms: u64,
    /// Class K: for how long after the first dispatch the same key may be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_window_ms: Option<u64>,
    /// For how long a settled effect is remembered with its answer.
    pub dedup_window_ms: u64,
    /// Whether somebody can ask for the answer again: by the key, or by a handle.
    pub keeps_answer: bool,
    /// What it changes, by name: two that overlap are never dispatched at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// What it reads, by name: with what it changes, what a credential has to cover to be told how it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Whether others may change the same at the same time, as its contract says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlaps: bool,
    /// Who acted for the user, the one who acted first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<Acting>,
}

/// What the end of a dispatched effect waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// The upstream wants input; a call with the state of this nonce goes on.
    Input(String),
    /// The upstream made a task of it, by the id we gave it.
    Task(String),
}

/// How an effect ended, as it is answered to whoever asks again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredAnswer {
    /// The upstream's result as it wrote it; a store keeps it apart.
    Result(#[serde(skip)] Bytes),
    /// It ended in a refusal: the answer was kept back, or a gate said no for good.
    Refusal(Box<Refusal>),
    /// The answer itself is not there: it was lost, or nobody can ask for it again. What is known about it, in a sentence.
    Known(String),
}

/// That a person settled what nobody knew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// Who.
    pub by: String,
    /// What they say they know it from.
    pub evidence: String,
    /// When.
    pub at_ms: u64,
}

/// An answer that contradicts what the ledger says: the ledger keeps both, and a person decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// What the ledger said when the answer came.
    pub state: EffectState,
    /// What the answer says, in a sentence.
    pub says: String,
    /// When it came, by the store's clock.
    pub at_ms: u64,
}

/// What happens to an effect.
#[derive(Debug, Clone)]
pub enum Event {
    /// A call wants it done.
    Begin(Box<Begin>),
    /// Its claim is to become a dispatch: the last moment before bytes leave.
    Fence(Claim),
    /// A claim is given up; nothing was sent.
    Release(Claim, String),
    /// A dispatch ended.
    Settle(Claim, End),
    /// A process found it without an owner and takes what can be taken. For an effect of its own that means that no call of
    /// the process holds it any more.
    Recover(OwnerId),
    /// A person says what happened.
    SettleByHand(ByHand),
    /// Its time is over.
    Expire,
}

/// A call that wants an effect.
#[derive(Debug, Clone)]
pub struct Begin {
    /// The handle it gets if the key is new.
    pub id: EffectId,
    /// What it is looked up by.
    pub key: EffectKey,
    /// The digest of what is proposed.
    pub request: Digest,
    /// The contract's effect class.
    pub class: EffectClass,
    /// This process.
    pub owner: OwnerId,
    /// The call.
    pub call_id: CallId,
    /// How it is performed.
    pub order: Order,
    /// How far to go at once.
    pub go: Go,
    /// The nonce of the state that this call goes on from.
    pub continues: Option<String>,
}

/// How far a call goes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Claims only: something is to be asked before bytes may leave.
    Claim {
        /// For how long nobody else takes it over.
        lease_ms: u64,
    },
    /// Claims and fences in one: bytes may leave at once.
    Dispatch,
}

/// Evidence of a claim or dispatch of one's own: the number that a newer owner makes worthless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which effect.
    pub id: EffectId,
    /// Which time.
    pub epoch: u64,
}

/// How a dispatch ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// It is done.
    Completed(StoredAnswer),
    /// The upstream says that it failed, or a gate said no for good.
    Failed(StoredAnswer),
    /// Nothing was sent, or the contract says that this error means that nothing was done.
    NotExecuted(String),
    /// Class Q: the status tool does not know the key, and the contract says that this proves it never ran.
    Absent(String),
    /// Nobody knows.
    Unknown(String),
    /// It is under way elsewhere, and ends within that many milliseconds.
    Awaits(Awaits, u64),
}

/// What a person says about an outcome that nobody knew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByHand {
    /// Whether it was done.
    pub completed: bool,
    /// Who says so.
    pub by: String,
    /// What they know it from.
    pub evidence: String,
}

/// What an event came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It is this caller's: claimed, or to be sent now.
    Mine(Claim),
    /// It is done already: this is the answer.
    Replay(StoredAnswer),
    /// Somebody is doing it.
    Running {
        /// When to ask again.
        retry_after_ms: u64,
        /// What its end waits for.
        awaits: Option<Awaits>,
    },
    /// The key was used with another payload.
    Mismatch,
    /// It was sent and nobody knows, and it is not sent again.
    Unknown,
    /// The same payload of the same caller, without a key, ended unknown under this handle: this may be a blind retry.
    Twin(EffectId),
    /// Another effect that is under way, by its handle, changes the same: its turn has not come.
    Blocked(EffectId),
    /// The key was used once, and its answer is gone.
    KeyExpired,
    /// Class Q: whoever gets this asks the status tool and settles.
    Ask(Claim),
    /// The ledger holds this end.
    Settled,
    /// The end contradicts what the ledger says. Both are kept, and a person has to look.
    Contradicted,
    /// The ledger does not take it: the effect went on without this caller.
    Stale,
    /// There is nothing to be done in its state.
    NotNow,
    /// There is no such effect.
    NotFound,
}

/// Which effect an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one of a key; it may not be there yet.
    Key(EffectKey),
    /// The one of a handle.
    Id(EffectId),
}

/// An event for a store to apply: read, [`step`], write, and the record beside it, all in one transaction.
#[derive(Debug)]
pub struct Change {
    /// Which effect.
    pub target: Target,
    /// What happens to it.
    pub event: Event,
    /// The record of the call, written if and only if the effect changes.
    pub record: Option<CallRecord>,
    /// An answer that broke its contract, kept beside the record.
    pub quarantine: Option<Bytes>,
    /// What is to be told of how it ended, written if and only if the effect changes and comes to that.
    pub notices: Vec<Notice>,
}

/// A note that is written with a change, unless there is one of its kind and key, where that change ends the effect so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How the effect has to end for it.
    pub ending: Ending,
    /// The note.
    pub note: Note,
}

/// How something ended, as far as everybody needs to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// It is done.
    Completed,
    /// It failed, or never ran.
    Failed,
    /// It was sent and nobody knows.
    Unknown,
}

/// The notes that go with an effect as it has become.
pub fn notes_due<'a>(notices: &'a [Notice], effect: &Effect) -> impl Iterator<Item = &'a Note> {
    let ending = effect.state.ending();
    notices.iter().filter(move |notice| Some(notice.ending) == ending).map(|notice| &notice.note)
}

/// What became of a change.
#[derive(Debug, Clone)]
pub struct Applied {
    /// What it came to.
    pub reply: Reply,
    /// The effect afterwards; none if there is none.
    pub effect: Option<Arc<Effect>>,
}

/// Where effects are kept. Reads that decide something see every change that was acknowledged anywhere.
pub trait Effects: Send + Sync + fmt::Debug {
    /// Applies one event in one transaction, and says what it came to. An error means that nobody knows whether it was
    /// applied: whoever sends bytes reads first.
    fn apply(&self, change: Change) -> PortFuture<'_, Result<Applied, JournalError>>;

    /// Why what was acknowledged may still be lost, if it may: then nothing is sent that could not be sent again.
    fn loses_commits(&self) -> Option<String> {
        None
    }

    /// The effect.
    fn find(&self, target: Target) -> PortFuture<'_, Result<Option<Effect>, JournalError>>;

    /// Some effects, newest first.
    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Effects that a process has to look after: claims whose lease is over, dispatches whose owner is gone or that wait past
    /// their time, and those of the owner itself whose lease has ended, which it may hold still. At most so many of every upstream
    /// that their recovery needs ([`Effect::recovers_at`]), and as many that need none; the oldest first within each, and the owner's
    /// own counted apart. So an upstream with any number of orphans never hides those of another.
    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Says that this process is alive. One that does not say so for a while is taken for gone.
    fn beat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>>;

    /// Why no new effects are taken at the moment, if the store is running out of room. What is under way is still settled, and keys that
    /// were used are still answered.
    fn out_of_room(&self) -> Option<String> {
        None
    }

    /// Makes tombstones of settled effects whose time is over, and forgets those nobody can ask for. Says how many.
    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>>;
}

/// How long an owner may be silent before it is taken for gone, in ledger time; as long is the lease of a dispatch. Owners
/// beat three times as often.
pub fn owner_silence_ms_max() -> u64 {
    servanda_contract::faults::limit_ms("SERVANDA_OWNER_SILENCE_MS", 15_000)
}

/// How much ledger time passes at the most between two writes, however long the store's clock says that it was. A store that
/// was away, or whose clock jumped, makes no owner look silent for longer than this.
pub fn ledger_tick_ms_max() -> u64 {
    owner_silence_ms_max() / 3
}

impl EffectState {
    /// How it ended, if it has.
    pub const fn ending(self) -> Option<Ending> {
        match self {
            Self::Completed => Some(Ending::Completed),
            Self::FailedFinal | Self::FailedRetryable => Some(Ending::Failed),
            Self::OutcomeUnknown => Some(Ending::Unknown),
            Self::Claimed | Self::Dispatching | Self::Compensated | Self::Expired => None,
        }
    }

    /// All of them, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::Claimed,
        Self::Dispatching,
        Self::Completed,
        Self::FailedFinal,
        Self::FailedRetryable,
        Self::OutcomeUnknown,
        Self::Compensated,
        Self::Expired,
    ];

    /// The text form in storage and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Dispatching => "dispatching",
            Self::Completed => "completed",
            Self::FailedFinal => "failed_final",
            Self::FailedRetryable => "failed_retryable",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Compensated => "compensated",
            Self::Expired => "expired",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The specification's word for it in an observation.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed | Self::Dispatching => "PENDING",
            Self::Completed => "COMPLETED",
            Self::FailedFinal => "FAILED_FINAL",
            Self::FailedRetryable => "FAILED_RETRYABLE",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Compensated => "COMPENSATED",
            Self::Expired => "EXPIRED",
        }
    }
}
