//! The context of one requester's inquiry at upstreams: the requester, its terms, and where messages of the upstream go meanwhile.

use std::sync::Arc;

use servanda_contract::{record::QuestionRecord, tool::QuestionKind};
use servanda_mcp::{Era, LogLevel, RpcError, envelope::code, shape};
use servanda_upstream::{Answer, Continuation, PerformFailure, UpstreamInquiry};
use tokio::time::Instant;

use super::{InquiryRelay, errors::from_failure};
use crate::{
    bridge::{
        Conversation, ConversationEnd, MessageSubscriber, MessageTranslator, ParkedRequest, QuestionTarget,
        RepeatableRequest,
    },
    client::{RequestTerms, Requester},
    clock::within_ms,
    deferred::upstream_tasks,
    delivery_template::{DeliveryAttempt, DeliveryTemplate},
    questions::{ClientFailure, QuestionRules},
    world::UpstreamMember,
};

/// The requester of an inquiry, and its terms.
#[derive(Debug, Clone)]
pub(crate) struct InquiryContext {
    pub(crate) requester: Requester,
    pub(crate) deadline: Instant,
    template: DeliveryTemplate,
    subscriber: MessageSubscriber,
    level: Option<LogLevel>,
    parked_request: Option<Arc<ParkedRequest>>,
    /// The kinds of questions that upstreams may not ask the requester during the call that the inquiry is about; none if it is about no
    /// call.
    refused_questions: Option<Vec<QuestionKind>>,
}

/// An inquiry that can be sent again.
struct RepeatableInquiry {
    member: Arc<UpstreamMember>,
    question: UpstreamInquiry,
    template: DeliveryTemplate,
}

impl InquiryContext {
    /// The context of an inquiry that may take up to `ms_max`.
    pub(crate) async fn new(relay: &InquiryRelay, requester: Requester, terms: RequestTerms, ms_max: u64) -> Self {
        let level = relay.sessions.level(&requester, terms.log_level.as_deref());
        let template = DeliveryTemplate {
            cancel: terms.cancel,
            upstream_requester: requester.upstream_requester(),
            wants_progress: terms.wants_progress,
            log_level: level.map(|level| level.as_str().to_owned()),
            trace_parent: terms.trace_parent,
            meta: upstream_tasks::with_their_id(&relay.deferred, &requester, terms.meta).await,
            key_header: None,
            entrusted: None,
            lease: None,
        };
        let deadline = within_ms(ms_max.min(terms.caller_wait_ms.unwrap_or(u64::MAX)));
        let subscriber = MessageSubscriber { sink: terms.messages, level };
        Self { requester, deadline, template, subscriber, level, parked_request: None, refused_questions: None }
    }

    /// The same, with a parked request that the requester can come back to.
    pub(crate) fn with_parked_request(mut self, parked_request: Arc<ParkedRequest>) -> Self {
        self.template.cancel = parked_request.cancel.clone();
        self.parked_request = Some(parked_request);
        self
    }

    /// The same, about a call whose upstream may not ask these kinds of questions.
    pub(crate) fn refusing_questions(mut self, kinds: &[QuestionKind]) -> Self {
        self.refused_questions = Some(kinds.to_vec());
        self
    }

    /// The same, about a task that its server made in this era and knows in no other.
    pub(crate) fn in_task_era(mut self, era: Era) -> Self {
        self.template.upstream_requester.era = era;
        self
    }

    /// Where messages of the upstream go first.
    pub(crate) fn subscriber(&self) -> MessageSubscriber {
        self.subscriber.clone()
    }

    /// Sends an inquiry and stays with it until its last answer. Questions that the upstream asks meanwhile are added to `asked`.
    pub(crate) async fn converse(
        &self,
        relay: &InquiryRelay,
        member: &Arc<UpstreamMember>,
        question: UpstreamInquiry,
        continuation: Continuation,
        asked: &mut Vec<QuestionRecord>,
    ) -> ConversationEnd {
        relay.sessions.send_level(member, &self.template.upstream_requester, self.level, self.deadline).await;
        let rules = self.question_rules(relay, member);
        let Self { requester, deadline, template, subscriber, parked_request, .. } = self.clone();
        let cancel = template.cancel.clone();
        let (has_stream, is_parked) = (subscriber.sink.is_some(), parked_request.is_some());
        let question_target = QuestionTarget::new(requester.era, requester.capabilities, has_stream, is_parked);
        let message_translator = MessageTranslator::new(&relay.bridge, member, requester.era, &requester.affinity);
        let bridge = &relay.bridge;
        let conversation = Conversation {
            bridge,
            question_target,
            message_translator,
            subscriber,
            parked_request,
            cancel,
            deadline,
            continuation,
            rules,
        };
        let mut inquiring = RepeatableInquiry { member: Arc::clone(member), question, template };
        match conversation.run(&mut inquiring, asked).await {
            ConversationEnd::Answered { answer, asked } => match shape::inspect(&answer.result) {
                Ok(()) => ConversationEnd::Answered { answer, asked },
                Err(fault) => {
                    tracing::warn!(upstream = %member.id, %fault, "the answer of an upstream is malformed and is not passed on");
                    ConversationEnd::Failed(self.malformed(relay, member, format!("its answer {fault}")))
                }
            },
            other => other,
        }
    }

    /// Which questions an upstream may ask meanwhile.
    pub(crate) fn question_rules(&self, relay: &InquiryRelay, member: &UpstreamMember) -> QuestionRules {
        let snapshot = relay.core.snapshot();
        let rules = match &self.refused_questions {
            Some(refused) => snapshot.question_rules(member).refusing(refused),
            None => snapshot.question_rules_outside_calls(member),
        };
        rules.asking(&self.requester.affinity, &relay.bridge.elicitations)
    }

    fn malformed(&self, relay: &InquiryRelay, member: &UpstreamMember, why: String) -> ClientFailure {
        self.question_rules(relay, member).failure_for_client(PerformFailure::Malformed { why }, &mut Vec::new())
    }

    /// Sends an inquiry that the upstream must not answer with a question. There is no record; questions that the upstream asks meanwhile
    /// are logged.
    pub(crate) async fn ask(
        &self,
        relay: &InquiryRelay,
        member: &Arc<UpstreamMember>,
        question: UpstreamInquiry,
    ) -> Result<Answer, ClientFailure> {
        self.ask_for_record(relay, member, question, &mut Vec::new()).await
    }

    /// The same about a call. Questions that the upstream asks meanwhile are added to `asked`.
    pub(crate) async fn ask_for_record(
        &self,
        relay: &InquiryRelay,
        member: &Arc<UpstreamMember>,
        question: UpstreamInquiry,
        asked: &mut Vec<QuestionRecord>,
    ) -> Result<Answer, ClientFailure> {
        match self.converse(relay, member, question, Continuation::default(), asked).await {
            ConversationEnd::Answered { answer, .. } => Ok(answer),
            ConversationEnd::Failed(failure) => Err(failure),
            ConversationEnd::Task(_) => {
                Err(self.malformed(relay, member, "it made a task, which this request does not allow".to_owned()))
            }
            ConversationEnd::Input(_) | ConversationEnd::Undeclared { .. } | ConversationEnd::NotGiven { .. } => {
                Err(self.malformed(relay, member, "it asked for input, which this request does not allow".to_owned()))
            }
        }
    }

    /// The same for a single upstream, whose error becomes the requester's error.
    pub(crate) async fn ask_one(
        &self,
        relay: &InquiryRelay,
        member: &Arc<UpstreamMember>,
        question: UpstreamInquiry,
    ) -> Result<Answer, RpcError> {
        self.ask(relay, member, question).await.map_err(|failure| from_failure(&failure, member))
    }
}

impl RepeatableRequest for RepeatableInquiry {
    async fn send(&mut self, attempt: DeliveryAttempt) -> Result<Answer, PerformFailure> {
        self.member.server.ask(self.question.clone(), self.template.delivery(attempt)).await
    }
}

/// The error for an answer that is not a JSON object.
pub(crate) fn not_an_object(member: &UpstreamMember) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, format!("`{}` answered with something that is not a result", member.id))
        .with_hint("operators: `servanda doctor` looks at every upstream")
}
