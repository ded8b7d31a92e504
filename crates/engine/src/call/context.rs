//! Who makes a call and how to answer it. What the call proposes is in its `Proposal`.

use std::sync::Arc;

use serde_json::value::RawValue;
use servanda_approval::TicketId;
use servanda_contract::CallId;
use servanda_effects::effect::ClientKey;
use servanda_upstream::Continuation;
use tokio::time::Instant;

use crate::{
    bridge::{ClientSessions, MessageSubscriber, ParkedRequest, RequestBinding},
    client::{RequestTerms, Requester},
    long_running::LongWork,
};

/// Everything that the stages of a call read and that its arguments do not say.
#[derive(Debug)]
pub(super) struct CallContext {
    pub(super) requester: Requester,
    pub(super) terms: RequestTerms,
    /// The raw `task` of a legacy client that wants a task.
    pub(super) task: Option<Box<RawValue>>,
    pub(super) started: Instant,
    /// What the client answers to an earlier `input_required`.
    pub(super) continuation: Continuation,
    /// The first call of the conversation that this call continues.
    pub(super) continues: Option<CallId>,
    /// The content of the `requestState` that the client brought.
    pub(super) state: Option<ResumedState>,
    /// Whether the client was sent to the page of this call's ticket before.
    pub(super) was_sent_to_page: bool,
    /// The ticket of the task for which the gateway repeats this call. The call takes up this one, and waits for nobody.
    pub(super) takes_up: Option<TicketId>,
    /// What a new `requestState` for this modern client is bound to.
    pub(super) binding: Option<RequestBinding>,
    /// Where a modern client waits that the server can ask something.
    pub(super) parked_request: Option<Arc<ParkedRequest>>,
    /// The call as long work, if its contract says so.
    pub(super) work: Option<Arc<LongWork>>,
}

/// What a `requestState` of this gateway says about the call that continues from it.
#[derive(Debug)]
pub(super) struct ResumedState {
    /// The only upstream where the call may continue.
    pub(super) upstream: String,
    pub(super) nonce: String,
    /// The operation that the state belongs to.
    pub(super) key: Option<ClientKey>,
}

impl CallContext {
    pub(super) fn new(
        requester: Requester,
        terms: RequestTerms,
        task: Option<Box<RawValue>>,
        started: Instant,
    ) -> Self {
        Self {
            requester,
            terms,
            task,
            started,
            continuation: Continuation::default(),
            continues: None,
            state: None,
            was_sent_to_page: false,
            takes_up: None,
            binding: None,
            parked_request: None,
            work: None,
        }
    }

    /// Where progress, log lines and questions of the server go.
    pub(super) fn subscriber(&self, sessions: &ClientSessions) -> MessageSubscriber {
        let level = sessions.level(&self.requester, self.terms.log_level.as_deref());
        MessageSubscriber { sink: self.terms.messages.clone(), level }
    }
}
