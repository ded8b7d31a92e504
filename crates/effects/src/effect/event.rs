//! What can happen to an effect, and what the one who brought the event is told.

use servanda_contract::{CallId, Digest, tool::EffectClass};

use super::{DispatchOrder, EffectId, EffectKey, EffectWaitReason, OwnerId, StoredAnswer};

/// What happens to an effect.
#[derive(Debug, Clone)]
pub enum EffectEvent {
    /// A call wants it done.
    Begin(Box<BeginRequest>),
    /// Its claim is to become a dispatch: the last moment before bytes leave.
    Fence(Claim),
    /// A claim is given up; nothing was sent.
    Release(Claim, String),
    /// A dispatch ended.
    Settle(Claim, DispatchEnd),
    /// A process found it without an owner and takes what can be taken. For an effect of its own that means that no call of
    /// the process holds it any more.
    Recover(OwnerId),
    /// A person says what happened.
    SettleByHand(ManualSettlement),
    /// Its time is over.
    Expire,
}

/// A call that wants an effect.
#[derive(Debug, Clone)]
pub struct BeginRequest {
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
    pub order: DispatchOrder,
    /// How far to go at once.
    pub mode: BeginMode,
    /// The nonce of the state that this call goes on from.
    pub continues: Option<String>,
}

/// How far a call goes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginMode {
    /// Claims only: something is to be asked before bytes may leave.
    Claim {
        /// How long no other process takes it over.
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
pub enum DispatchEnd {
    /// It is done.
    Completed(StoredAnswer),
    /// The upstream says that it failed, or a gate said no for good.
    Failed(StoredAnswer),
    /// Nothing was sent, or the contract says that this error means that nothing was done.
    NotExecuted(String),
    /// Class Q: the status tool does not know the key, and the contract says that this proves it never ran.
    Absent(String),
    /// The outcome is not known.
    Unknown(String),
    /// It is under way elsewhere, and ends within that many milliseconds.
    Awaits(EffectWaitReason, u64),
}

/// What a person says about an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualSettlement {
    /// Whether it was done.
    pub completed: bool,
    /// Who says so.
    pub by: String,
    /// What they know it from.
    pub evidence: String,
}

/// What an event came to.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectReply {
    /// It is this caller's: claimed, or to be sent now.
    Mine(Claim),
    /// It is done already: this is the answer.
    Replay(StoredAnswer),
    /// Another call is performing it.
    Running {
        /// When to ask again.
        retry_after_ms: u64,
        /// What its end waits for.
        awaits: Option<EffectWaitReason>,
    },
    /// The key was used with another payload.
    Mismatch,
    /// It was sent and its outcome is not known. It is not sent again.
    Unknown,
    /// The same payload of the same caller, without a key, ended unknown under this handle: this may be a blind retry.
    Twin(EffectId),
    /// Another effect that is under way, by its handle, changes the same: its turn has not come.
    Blocked(EffectId),
    /// The key was used once, and its answer is gone.
    KeyExpired,
    /// Class Q: the process that gets this asks the status tool and settles the effect.
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
