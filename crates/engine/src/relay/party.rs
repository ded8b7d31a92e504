//! One guest's inquiry, as it is made at upstreams: on whose behalf, on what terms, and who hears what is said on the way.

use std::sync::Arc;

use servanda_mcp::{Era, LogLevel, RpcError, envelope::code};
use servanda_upstream::{Answer, Continuation, PerformFailure, Question};
use tokio::time::Instant;

use crate::{
    bridge::{Conversation, Ending, Errand, Hearer, Leg, Listener, Outlet, Reception},
    core::{Core, within_ms},
    gateway::{Guest, Terms},
    outline::Outline,
    relay::of_failure,
    scene::Member,
    sessions, tasks,
};

/// Who asks, and how.
#[derive(Debug, Clone)]
pub(crate) struct Party {
    pub(crate) guest: Guest,
    pub(crate) deadline: Instant,
    outline: Outline,
    hearer: Hearer,
    level: Option<LogLevel>,
    reception: Option<Arc<Reception>>,
}

/// A question that can be put again.
struct Inquiring {
    member: Arc<Member>,
    question: Question,
    outline: Outline,
}

impl Party {
    /// The party of an inquiry that may take that long.
    pub(crate) async fn of(core: &Core, guest: Guest, terms: Terms, ms_max: u64) -> Self {
        let level = core.sessions.level(&guest, terms.log_level.as_deref());
        let outline = Outline {
            cancel: terms.cancel,
            counterpart: sessions::counterpart(&guest),
            wants_progress: terms.wants_progress,
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: terms.trace_parent,
            meta: tasks::with_their_id(core, &guest, terms.meta).await,
            key_header: None,
            entrusted: None,
            lease: None,
        };
        let deadline = within_ms(ms_max.min(terms.caller_wait_ms.unwrap_or(u64::MAX)));
        let hearer = Hearer { sink: terms.remarks, level };
        Self { guest, deadline, outline, hearer, level, reception: None }
    }

    /// The same with a place where the guest can come again.
    pub(crate) fn received(mut self, reception: Arc<Reception>) -> Self {
        self.outline.cancel = reception.cancel.clone();
        self.reception = Some(reception);
        self
    }

    /// Who hears remarks first.
    pub(crate) fn hearer(&self) -> Hearer {
        self.hearer.clone()
    }

    /// Puts a question and everything that follows from it.
    pub(crate) async fn converse(
        &self,
        core: &Core,
        member: &Arc<Member>,
        question: Question,
        continuation: Continuation,
    ) -> Ending {
        core.sessions.tell_level(member, &self.outline.counterpart, self.level, self.deadline).await;
        let Self { guest, deadline, outline, hearer, reception, .. } = self.clone();
        let cancel = outline.cancel.clone();
        let can_be_asked = if guest.era == Era::Legacy { hearer.sink.is_some() } else { reception.is_some() };
        let listener = Listener { era: guest.era, capabilities: guest.capabilities, can_be_asked };
        let outlet = Outlet {
            naming: member.naming,
            upstream: Arc::clone(&member.id),
            guest_era: guest.era,
            tasks: Arc::clone(&core.tasks),
            ear: None,
        };
        let bridge = &core.bridge;
        let conversation = Conversation { bridge, listener, outlet, hearer, reception, cancel, deadline, continuation };
        conversation.run(&mut Inquiring { member: Arc::clone(member), question, outline }).await
    }

    /// Puts a question that is never answered with another.
    pub(crate) async fn ask(
        &self,
        core: &Core,
        member: &Arc<Member>,
        question: Question,
    ) -> Result<Answer, PerformFailure> {
        match self.converse(core, member, question, Continuation::default()).await {
            Ending::Answered { answer, .. } => Ok(answer),
            Ending::Failed(failure) => Err(failure),
            Ending::Task(_) => Err(PerformFailure::Malformed { why: "it makes a task where it must not".to_owned() }),
            Ending::Input(_) | Ending::Undeclared { .. } | Ending::NotGiven { .. } => {
                Err(PerformFailure::Malformed { why: "it asks for input where it must not".to_owned() })
            }
        }
    }

    /// The same for one upstream alone: its error is the guest's.
    pub(crate) async fn ask_one(
        &self,
        core: &Core,
        member: &Arc<Member>,
        question: Question,
    ) -> Result<Answer, RpcError> {
        self.ask(core, member, question).await.map_err(|failure| of_failure(&failure, member))
    }
}

impl Errand for Inquiring {
    async fn send(&mut self, leg: Leg) -> Result<Answer, PerformFailure> {
        self.member.server.ask(self.question.clone(), self.outline.delivery(leg)).await
    }
}

/// An answer that is no JSON object.
pub(crate) fn not_an_object(member: &Member) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, format!("`{}` answered with what is no result", member.id))
        .with_hint("operators: `servanda doctor` looks at every upstream")
}
