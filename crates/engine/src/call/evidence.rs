//! What one stage of a call hands to the next, and why a stage ends the call instead. Each value is evidence that the stages before it
//! passed. Deliberately not here: how a stage earns it.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{
    GateName, Refusal, TaxonomyClass,
    record::Outcome,
    refusal::EffectKnowledge,
    tool::{EffectClass, QuestionKind},
};
use servanda_effects::effect::{Claim, ClientKey, DispatchEnd, Effect, EffectReply, EffectWaitReason};
use servanda_gates::{CompiledContract, Fenced};
use servanda_mcp::{Era, RpcError};
use servanda_upstream::DispatchLease;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{probing::ProbedCall, resource_queue::ResourceTurn};
use crate::{
    bridge::{self, ConversationEnd, ROUND_MS_MAX},
    cache::PendingRead,
    core::InFlightEffectGuard,
    deferred::late_answers::LateAnswer,
    long_running::LongWorkEntry,
    probes::Mutation,
    records,
    world::UpstreamMember,
};

/// The operation that a call is part of.
#[derive(Debug)]
pub(super) struct CallOperation {
    pub(super) key: ClientKey,
    /// The nonce of the `requestState` that the call continues from.
    pub(super) continues: Option<String>,
}

/// What is decided about a call before it is paid for: who performs it, and until when.
#[derive(Debug)]
pub(super) struct CallPlan {
    pub(super) member: Arc<UpstreamMember>,
    pub(super) contract: Arc<CompiledContract>,
    /// How long a dispatch may take.
    pub(super) timeout_ms: u64,
    /// When the answer has to be there.
    pub(super) deadline: Instant,
    /// The resources that the call changes; none if it only reads.
    pub(super) changes: Option<Vec<String>>,
    pub(super) operation_id: Option<String>,
    /// Kinds of questions that the server may not ask the caller.
    pub(super) refused_questions: Vec<QuestionKind>,
}

/// What a call holds from its turn until its end is on record.
#[derive(Debug, Default)]
pub(super) struct Dispatch {
    /// The effect of the call.
    pub(super) effect: Option<OwnedEffect>,
    /// Keeps other calls from changing the same resources meanwhile.
    pub(super) _turn: Option<ResourceTurn>,
    /// Lets clients ask about the call as long work.
    pub(super) entered: Option<LongWorkEntry>,
    /// What the probes saw before it was sent.
    pub(super) probed: Option<Box<ProbedCall>>,
    /// Tells the probes of other calls that something may change.
    pub(super) mutation: Option<Mutation>,
}

/// The effect of a call, as this process holds it.
#[derive(Debug)]
pub(super) struct OwnedEffect {
    pub(super) claim: Claim,
    pub(super) held: InFlightEffectGuard,
    pub(super) class: EffectClass,
    /// The nonce of the state that a later call may continue from, as long as nothing was sent.
    pub(super) continues: Option<String>,
}

/// A call whose bytes may leave.
#[derive(Debug)]
pub(super) struct SendableCall {
    pub(super) fenced: Fenced,
    /// For how long its bytes may leave; none if the call is not an effect.
    pub(super) lease: Option<DispatchLease>,
    pub(super) dispatch: Dispatch,
}

/// A call that was sent, and how that ended.
#[derive(Debug)]
pub(super) struct PerformedCall {
    pub(super) exchange: CallExchange,
    pub(super) ending: ConversationEnd,
    pub(super) dispatch: Dispatch,
    /// The place in the cache for its answer.
    pub(super) to_cache: Option<Box<PendingRead>>,
    /// What a `requestState` for its client is bound to.
    pub(super) binding: Option<bridge::RequestBinding>,
    pub(super) cancel: CancellationToken,
}

/// What the end of a call depends on.
#[derive(Debug)]
pub(super) struct CallExchange {
    pub(super) member: Arc<UpstreamMember>,
    pub(super) contract: Arc<CompiledContract>,
    pub(super) fenced: Fenced,
    pub(super) requester_era: Era,
    pub(super) wants_task: bool,
    /// When the server wants to be asked again.
    pub(super) retry_after_ms: Option<u64>,
    /// Whether the server made a task of the call and the gateway waited for it.
    pub(super) was_task: bool,
    pub(super) deadline: Instant,
    pub(super) refused_questions: Vec<QuestionKind>,
    /// The answer that may still come after the deadline.
    pub(super) late: Option<LateAnswer>,
}

impl Dispatch {
    /// What a refusal means for the effect. A call that continued from a state and was not sent may continue from it again.
    pub(super) fn end_of_refusal(&self, refusal: &Refusal) -> DispatchEnd {
        let continues = self.effect.as_ref().and_then(|effect| effect.continues.as_ref());
        match (refusal.effect, continues) {
            (EffectKnowledge::None, Some(nonce)) => {
                DispatchEnd::Awaits(EffectWaitReason::Input(nonce.clone()), ROUND_MS_MAX)
            }
            _ => records::end_of_refusal(refusal),
        }
    }

    /// The call may have been sent, so the state that it continued from is used up.
    pub(super) fn use_up_state(&mut self) {
        if let Some(effect) = &mut self.effect {
            effect.continues = None;
        }
    }
}

/// Why a call ends before it is sent.
#[derive(Debug)]
pub(super) enum CallExit {
    /// A stage refused it.
    Refused {
        refusal: Box<Refusal>,
        /// How it is recorded.
        outcome: Outcome,
        /// What it holds already: a call may be refused after its effect was claimed.
        dispatch: Box<Dispatch>,
    },
    /// The `requestState` that it continues from cannot be used.
    UnusableState(RpcError),
    /// Its client shows the page of its ticket: the members of an `input_required` result.
    SentToPage(String),
    /// It waits for people as a task: the members of the era's task result.
    HeldAsTask { id: String, json: String },
    /// The cache has its answer.
    Cached(Bytes),
    /// Its effect exists already, or belongs to another call.
    ExistingEffect(EffectReply, Option<Arc<Effect>>),
}

impl CallExit {
    /// A gate refused the call.
    pub(super) fn refused(refusal: Box<Refusal>) -> Self {
        Self::Refused { refusal, outcome: Outcome::Refused, dispatch: Box::default() }
    }

    /// The call passed the gates but was not sent.
    pub(super) fn not_sent(refusal: Box<Refusal>) -> Self {
        Self::not_dispatched(refusal, Dispatch::default())
    }

    /// The call passed the gates but was not sent, and it already holds something.
    pub(super) fn not_dispatched(refusal: Box<Refusal>, dispatch: Dispatch) -> Self {
        let outcome = outcome_of(&refusal);
        Self::Refused { refusal, outcome, dispatch: Box::new(dispatch) }
    }
}

/// How a call that was not sent is recorded.
fn outcome_of(refusal: &Refusal) -> Outcome {
    match (refusal.gate, refusal.error_code, refusal.effect) {
        (GateName::State | GateName::Scope | GateName::Budget, _, _)
        | (_, TaxonomyClass::IdempotencyConflict, _)
        | (_, _, EffectKnowledge::UnknownBefore) => Outcome::Refused,
        (_, _, EffectKnowledge::None) => Outcome::NotExecuted,
        _ => Outcome::Unknown,
    }
}
