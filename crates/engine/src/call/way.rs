//! How a call is to be answered, and what it goes on from, apart from what it proposes.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_contract::CallId;
use servanda_gates::effect::ClientKey;
use servanda_upstream::Continuation;
use tokio::time::Instant;

use crate::{
    bridge::{Claim, Hearer, Reception},
    core::Core,
    gateway::{Guest, Terms},
    works::Work,
};

/// The way of one call.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) guest: Guest,
    pub(super) terms: Terms,
    pub(super) task: Option<Box<RawValue>>,
    pub(super) started: Instant,
    pub(super) continuation: Continuation,
    /// The first call of the conversation.
    pub(super) continues: Option<CallId>,
    /// The state it goes on from.
    pub(super) round: Option<Round>,
    /// What a state for a modern guest says.
    pub(super) claim: Option<Claim>,
    /// Where a modern guest that can be asked something waits.
    pub(super) reception: Option<Arc<Reception>>,
    /// The long work that it is, if it is one.
    pub(super) work: Option<Arc<Work>>,
}

/// What a state of ours says about the round that it begins.
#[derive(Debug)]
pub(super) struct Round {
    /// The only upstream that it may go on at.
    pub(super) upstream: String,
    pub(super) nonce: String,
    /// The operation it belongs to.
    pub(super) key: Option<ClientKey>,
}

impl Way {
    pub(super) fn new(guest: Guest, terms: Terms, task: Option<Box<RawValue>>, started: Instant) -> Self {
        Self {
            guest,
            terms,
            task,
            started,
            continuation: Continuation::default(),
            continues: None,
            round: None,
            claim: None,
            reception: None,
            work: None,
        }
    }

    /// Who hears what is said on the way.
    pub(super) fn hearer(&self, core: &Core) -> Hearer {
        let level = core.sessions.level(&self.guest, self.terms.log_level.as_deref());
        Hearer { sink: self.terms.remarks.clone(), level }
    }
}
