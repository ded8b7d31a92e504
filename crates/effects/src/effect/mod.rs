//! One effect: what a key may do to the world, from the claim to the tombstone. This module defines what is
//! stored about an effect. Its states are in `state`, its events in `event`, the port of stores in `store`.
//! [`step()`] decides the next state after an event, for every store alike.
//!
//! Deliberately not here: storage, and the choice of a client's key.

mod clock;
mod event;
mod in_memory;
mod key;
mod knowledge;
mod lost_window;
mod orphan;
mod orphan_query;
mod query;
mod rules;
mod settle;
mod state;
mod step;
mod store;
#[cfg(test)]
mod tests;
mod transition;
mod turn;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use servanda_contract::{CallId, Caller, CallerActor, Digest, Refusal, tool::EffectClass};

use crate::all_touched;

pub use clock::{LedgerClock, LedgerNow, ledger_tick_ms_max, owner_silence_ms_max};
pub use event::{BeginMode, BeginRequest, Claim, DispatchEnd, EffectEvent, EffectReply, ManualSettlement};
pub use in_memory::InMemoryEffects;
pub use key::{ClientKey, EffectId, EffectKey, OwnerId};
pub use knowledge::{
    SettlementStatus, knowledge_after_attempt, knowledge_after_settlement, knowledge_of_key, knowledge_of_unread_key,
    knowledge_to_report, knowledge_without_mark, settlement_status,
};
pub use lost_window::LostWindow;
pub use orphan::{is_orphaned, needs_owner};
pub use orphan_query::{ORPHANED_UPSTREAMS_MAX, OrphanCursor, OrphanQuery};
pub use query::{EffectFilter, EffectQuery};
pub use rules::{EffectRule, EffectRules};
pub use state::{EffectEnding, EffectState};
pub use step::{replay, standing_reply, step};
pub use store::{AppliedChange, EffectChange, EffectStore, EffectTarget, Notice, notes_due};
pub use transition::{EffectContext, EffectTransition};
pub use turn::{ExclusiveResources, is_blocking};

/// Everything that is stored about an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    /// Its handle.
    pub id: EffectId,
    /// The key it is looked up by.
    pub key: EffectKey,
    /// The digest of the operation requested under the key: tenant, tool, canonical arguments.
    pub request: Digest,
    /// What may follow an uncertain dispatch.
    pub class: EffectClass,
    /// Its current state.
    pub state: EffectState,
    /// Counts the owners. An owner with an older number can no longer change it.
    pub epoch: u64,
    /// The process that claimed it last.
    pub owner: OwnerId,
    /// The call that claimed it last.
    pub call_id: CallId,
    /// How it is performed.
    pub order: DispatchOrder,
    /// Until this ledger time no other process takes it over, whether or not its owner beats.
    pub lease_until_ms: u64,
    /// While dispatching: the ledger time at which its owner has given up waiting for an answer.
    pub overdue_at_ms: u64,
    /// While dispatching: what its end waits for, if not for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<EffectWaitReason>,
    /// How often bytes were allowed to leave.
    pub dispatches: u32,
    /// When bytes were first allowed to leave, by the store's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_dispatched_ms: Option<u64>,
    /// The same in ledger time. An upstream's window for a key is over when either clock says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_dispatched_ledger_ms: Option<u64>,
    /// How it ended, to answer repetitions of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<StoredAnswer>,
    /// Why it never ran, or why its outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who settled it by hand, and on what evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settlement: Option<Settlement>,
    /// Evidence that contradicts the ledger. A person has to decide.
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
pub struct DispatchOrder {
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
    /// The key that is sent to an upstream that deduplicates or can be asked.
    pub upstream_key: String,
    /// The canonical arguments. A store keeps them separately, and drops them when nothing can be sent again.
    #[serde(skip)]
    pub arguments: Bytes,
    /// How long a dispatch may take.
    pub timeout_ms: u64,
    /// Class K: how long after the first dispatch the same key may be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_window_ms: Option<u64>,
    /// How long a settled effect is remembered with its answer.
    pub dedup_window_ms: u64,
    /// Whether a client can ask for the answer again, by the key or by a handle.
    pub keeps_answer: bool,
    /// The resources it changes. Two effects whose resources overlap are never dispatched at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The resources it reads. A credential has to cover these and the changed ones to be told how the effect
    /// ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Whether others may change the same resources at the same time, as its contract says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlaps: bool,
    /// The agents that acted for the user, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<CallerActor>,
}

/// What the end of a dispatched effect waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectWaitReason {
    /// The upstream wants input; a call with the request state of this nonce continues it.
    Input(String),
    /// The upstream made a task of it, with the id that the gateway gave it.
    Task(String),
}

/// How an effect ended, as the answer to a repetition of the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredAnswer {
    /// The upstream's result, byte for byte; a store keeps it separately.
    Result(#[serde(skip)] Bytes),
    /// It ended in a refusal: the answer was quarantined, or a gate refused it for good.
    Refusal(Box<Refusal>),
    /// The answer itself is not available: it was lost, or no client can ask for it again. A sentence about
    /// what is known.
    Known(String),
}

/// A person's settlement of an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// Who.
    pub by: String,
    /// How they say they know.
    pub evidence: String,
    /// When.
    pub at_ms: u64,
}

/// An answer that contradicts the ledger. The ledger stores both, and a person decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflict {
    /// The state in the ledger when the answer came.
    pub state: EffectState,
    /// What the answer says, in a sentence.
    pub says: String,
    /// When it came, by the store's clock.
    pub at_ms: u64,
}

impl Effect {
    /// The caller it belongs to.
    pub fn caller(&self) -> Caller {
        let actors = self.order.actors.clone();
        Caller { actors, ..Caller::named(&self.key.tenant, &self.key.principal) }
    }

    /// The resources that it changes or reads.
    pub fn touches(&self) -> Vec<String> {
        all_touched(&self.order.resources, &self.order.reads)
    }

    /// The claim of its current owner.
    pub fn claim(&self) -> Claim {
        Claim { id: self.id.clone(), epoch: self.epoch }
    }

    /// Whether a call has claimed it and nothing may have been sent for it yet: no record and no approval belongs to a claim.
    pub fn is_only_claimed(&self) -> bool {
        self.state == EffectState::Claimed
    }

    /// Whether a dispatch before the current one may have done it.
    pub fn was_sent_before(&self) -> bool {
        self.dispatches > 1 && self.class != EffectClass::R
    }

    fn forget_dispatches(&mut self) {
        (self.dispatches, self.first_dispatched_ms, self.first_dispatched_ledger_ms) = (0, None, None);
    }

    fn is_of(&self, claim: &Claim) -> bool {
        self.id == claim.id && self.epoch == claim.epoch
    }
}
