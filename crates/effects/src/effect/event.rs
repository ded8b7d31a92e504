//! What can happen to an effect, and the replies to it.

use servanda_approval::TicketReply;
use servanda_contract::{CallId, Digest, tool::EffectClass};

use super::{DispatchOrder, EffectId, EffectKey, EffectWaitReason, OwnerId, StoredAnswer};

/// What happens to an effect.
#[derive(Debug, Clone)]
pub enum EffectEvent {
    /// A call wants the effect.
    Begin(Box<BeginRequest>),
    /// A claim becomes a dispatch: the last moment before bytes leave.
    Fence(Claim),
    /// A claim is given up; nothing was sent.
    Release(Claim, String),
    /// A dispatch ended.
    Settle(Claim, DispatchEnd),
    /// A process found it without an owner, and takes over what can be taken over. For an effect of its own
    /// this means that none of the process's calls holds it any more.
    Recover(OwnerId),
    /// A person states what happened.
    SettleByHand(ManualSettlement),
    /// Its window is over.
    Expire,
}

/// A call that wants an effect.
#[derive(Debug, Clone)]
pub struct BeginRequest {
    /// The handle it gets if the key is new.
    pub id: EffectId,
    /// The key it is looked up by.
    pub key: EffectKey,
    /// The digest of the requested operation.
    pub request: Digest,
    /// The contract's effect class.
    pub class: EffectClass,
    /// This process.
    pub owner: OwnerId,
    /// The call.
    pub call_id: CallId,
    /// How it is performed.
    pub order: DispatchOrder,
    /// How far to go right away.
    pub mode: BeginMode,
    /// The nonce of the request state that this call continues from.
    pub continues: Option<String>,
}

/// How far a call goes right away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeginMode {
    /// Claims only: the client has to be asked something before bytes may leave.
    Claim {
        /// How long no other process may take it over.
        lease_ms: u64,
    },
    /// Claims and fences in one step: bytes may leave right away.
    Dispatch,
}

/// Proves a claim or dispatch. A newer owner makes its epoch worthless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Which effect.
    pub id: EffectId,
    /// The epoch of the owner.
    pub epoch: u64,
}

/// How a dispatch ended.
#[derive(Debug, Clone, PartialEq)]
pub enum DispatchEnd {
    /// The effect was done.
    Completed(StoredAnswer),
    /// The upstream says that it failed, or a gate refused it for good.
    Failed(StoredAnswer),
    /// Nothing was sent, or the contract says that this error means that nothing was done.
    NotExecuted(String),
    /// Class Q: the status tool does not know the key, and the contract says that this proves it never ran.
    Absent(String),
    /// The outcome is not known.
    Unknown(String),
    /// It is under way elsewhere, and ends within this many milliseconds.
    Awaits(EffectWaitReason, u64),
}

/// A person's statement about an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManualSettlement {
    /// The epoch of the effect that the person looked at, if they looked at one. An effect that went on since then is not settled: its
    /// outcome may be unknown again, but of another dispatch.
    pub epoch: Option<u64>,
    /// Whether it was done.
    pub completed: bool,
    /// Who says so.
    pub by: String,
    /// How they know.
    pub evidence: String,
}

/// The reply to an event.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectReply {
    /// The caller owns it: claimed, or to be sent now.
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
    /// It was sent and its outcome is unknown. It is not sent again.
    Unknown,
    /// A call of the same caller with the same payload, without a key, ended unknown under this handle. This
    /// may be a blind retry.
    Twin(EffectId),
    /// Another effect under way, with this handle, changes the same resource. The call has to wait.
    Blocked(EffectId),
    /// The key was used once, and its answer is no longer stored.
    KeyExpired,
    /// Class Q: the process that gets this asks the status tool and settles the effect.
    Ask(Claim),
    /// The ledger has stored this end.
    Settled,
    /// The end contradicts the ledger. Both are stored, and a person has to decide.
    Contradicted,
    /// The ledger rejects it: the effect went on without this caller.
    Stale,
    /// Nothing can be done in its current state.
    NotNow,
    /// There is no such effect.
    NotFound,
    /// The approval that the call needs cannot be used; the reply is the ticket's. Nothing was changed.
    NotApproved(Box<TicketReply>),
}
