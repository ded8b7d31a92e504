//! Runs a conversation with a server: sends the request, handles the messages that arrive meanwhile, keeps the deadlines, and performs the
//! actions that the state machine decides on.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use servanda_contract::record::QuestionRecord;
use servanda_mcp::{
    Era, RawObject, RpcError,
    envelope::code,
    fields::{member, result_type},
    shape,
};
use servanda_upstream::{Answer, Continuation, PerformFailure, QuestionReply, ServerMessage, UpstreamQuestion};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Bridge, INPUT_MS_MAX,
    conversation_state::{
        ConversationAction, ConversationEvent, ConversationOutcome, ConversationState, QuestionTarget,
    },
    message_translator::{MessageSubscriber, MessageTranslator},
    parked_request::{ParkedReply, ParkedRequest, ReturningRequest, UNSENT_MESSAGES_MAX, already_waiting},
    sleep_until_or_forever, with_state,
};
use crate::{
    answers::upstream_failure,
    client::{ClientMessage, PendingQuestion},
    delivery_template::DeliveryAttempt,
    questions::{
        ClientFailure, ClientQuestion, MissingInput, QuestionRules, RefusedQuestion, ServerQuestion, input_requests,
        read_input_requests,
    },
};

/// How long questions are gathered that arrive one after another and belong together.
const GATHER_MS: u64 = 20;

/// A request to a server that can be made again with what the server asked for.
pub(crate) trait RepeatableRequest: Send {
    /// Sends the request.
    fn send(&mut self, attempt: DeliveryAttempt) -> impl Future<Output = Result<Answer, PerformFailure>> + Send;
}

/// One request and all its participants.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) bridge: &'a Bridge,
    pub(crate) question_target: QuestionTarget,
    pub(crate) message_translator: MessageTranslator,
    /// Receives the server's messages if there is no parked request.
    pub(crate) subscriber: MessageSubscriber,
    /// The request to which a modern requester can come back.
    pub(crate) parked_request: Option<Arc<ParkedRequest>>,
    /// Cancelled when the requester gives up.
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: Instant,
    pub(crate) continuation: Continuation,
    /// What the server may ask meanwhile.
    pub(crate) rules: QuestionRules,
}

/// The input that a modern server wants before it continues.
#[derive(Debug)]
pub(crate) struct RequiredInput {
    pub(crate) answer: Answer,
    /// Its questions as the requester gets them, as JSON.
    pub(crate) input_requests: String,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum ConversationEnd {
    /// The server's last answer, and whether the server asked for anything before it.
    Answered { answer: Answer, asked: bool },
    /// A modern server made a task of the request: the last answer comes later.
    Task(Answer),
    /// There is no answer.
    Failed(ClientFailure),
    /// The server wants input, and the modern requester can give it.
    Input(RequiredInput),
    /// The server wants input that the modern requester never declared it could give. `required` is what it would have to declare, as
    /// JSON.
    Undeclared { answer: Answer, required: String },
    /// The legacy requester did not give what the server wanted.
    NotGiven { answer: Answer, what: MissingInput },
}

/// A conversation in progress.
struct ConversationDriver<'a> {
    conversation_state: Option<ConversationState>,
    bridge: &'a Bridge,
    message_translator: MessageTranslator,
    subscriber: MessageSubscriber,
    parked_request: Option<Arc<ParkedRequest>>,
    /// Where answers to kept questions go.
    kept: BTreeMap<String, oneshot::Sender<QuestionReply>>,
    gather_at: Option<Instant>,
    lapse_at: Option<Instant>,
    /// Whether the server asked for anything.
    asked: bool,
    rules: QuestionRules,
    /// What the server asked, for the record.
    questions: &'a mut Vec<QuestionRecord>,
}

/// What follows an answer of the server.
enum ConversationStep {
    Again(Continuation),
    End(ConversationOutcome),
}

impl Conversation<'_> {
    /// Sends the request and continues to its last answer. The server's questions are added to `questions`.
    pub(crate) async fn run<E: RepeatableRequest>(
        self,
        repeatable: &mut E,
        questions: &mut Vec<QuestionRecord>,
    ) -> ConversationEnd {
        let Self {
            bridge,
            question_target,
            message_translator,
            subscriber,
            parked_request,
            cancel,
            mut deadline,
            mut continuation,
            rules,
        } = self;
        let hears =
            subscriber.sink.is_some() || parked_request.is_some() || message_translator.progress_recorder.is_some();
        let (sink, mut messages) = hears.then(|| mpsc::channel(UNSENT_MESSAGES_MAX)).unzip();
        let host = parked_request.clone();
        let mut arrivals = match &host {
            Some(parked_request) => Some(parked_request.arrivals.lock().await),
            None => None,
        };
        let conversation_state = Some(ConversationState::new(question_target));
        let (kept, gather_at, lapse_at) = (BTreeMap::new(), None, None);
        let mut driver = ConversationDriver {
            conversation_state,
            bridge,
            message_translator,
            subscriber,
            parked_request,
            kept,
            gather_at,
            lapse_at,
            asked: false,
            rules,
            questions,
        };
        let mut answered_before = false;
        loop {
            let attempt = DeliveryAttempt { deadline, messages: sink.clone(), continuation };
            let sent = pin!(repeatable.send(attempt));
            let answer = match driver.wait_for_answer(sent, messages.as_mut(), arrivals.as_deref_mut()).await {
                Ok(answer) => answer,
                Err(failure) => return driver.failed(failure, answered_before),
            };
            answered_before = true;
            let asked_at = Instant::now();
            let (event, input_requests) = match answer_kind(&answer) {
                UpstreamAnswerKind::Last => (ConversationEvent::Concluded, String::new()),
                UpstreamAnswerKind::Task => return ConversationEnd::Task(answer),
                UpstreamAnswerKind::WantsInput { requests, state } => match driver.check_questions(requests) {
                    Ok(requests) => {
                        let input_requests = input_requests(&requests);
                        (ConversationEvent::WantsInput { requests, state }, input_requests)
                    }
                    Err(what) => return ConversationEnd::NotGiven { answer, what },
                },
            };
            match driver.handle_answer(event, &cancel).await {
                ConversationStep::End(end) => {
                    return ConversationEnd::from_outcome(end, RequiredInput { answer, input_requests }, driver.asked);
                }
                ConversationStep::Again(again) => (continuation, driver.asked) = (again, true),
            }
            // The server's time stands still while the gateway asks the requester.
            deadline += asked_at.elapsed();
        }
    }
}

impl ConversationEnd {
    fn from_outcome(end: ConversationOutcome, wanted: RequiredInput, asked: bool) -> Self {
        if end == ConversationOutcome::Input {
            return Self::Input(wanted);
        }
        let answer = wanted.answer;
        match end {
            ConversationOutcome::Answer | ConversationOutcome::Input => Self::Answered { answer, asked },
            ConversationOutcome::Undeclared(required) => Self::Undeclared { answer, required },
            ConversationOutcome::NotGiven(what) => Self::NotGiven { answer, what },
        }
    }
}

impl ConversationDriver<'_> {
    fn failed(&mut self, failure: PerformFailure, answered_before: bool) -> ConversationEnd {
        // A server that asked a question may have done something before it asked.
        let failure = if answered_before { upstream_failure::after_sending(failure) } else { failure };
        ConversationEnd::Failed(self.rules.failure_for_client(failure, self.questions))
    }

    /// Waits for the server's answer and handles everything else meanwhile. Messages that came before the answer are passed on before it.
    async fn wait_for_answer(
        &mut self,
        mut sent: Pin<&mut impl Future<Output = Result<Answer, PerformFailure>>>,
        mut messages: Option<&mut mpsc::Receiver<ServerMessage>>,
        mut arrivals: Option<&mut mpsc::Receiver<ReturningRequest>>,
    ) -> Result<Answer, PerformFailure> {
        // Boxed, because most calls are asked nothing, and the state of a call has to have room for the largest of these.
        let answered = loop {
            tokio::select! {
                biased;
                answered = &mut sent => break answered,
                Some(message) = next_message(&mut messages) => self.handle_message(message),
                Some(returning_request) = next_message(&mut arrivals) => Box::pin(self.readmit(returning_request)).await,
                () = sleep_until_or_forever(self.gather_at) => {
                    self.gather_at = None;
                    Box::pin(self.handle_event(ConversationEvent::Gathered)).await;
                }
                () = sleep_until_or_forever(self.lapse_at) => Box::pin(self.lapse()).await,
                () = self.bridge.closing.cancelled(), if self.lapse_at.is_some() => Box::pin(self.lapse()).await,
            }
        };
        while let Some(message) = messages.as_mut().and_then(|messages| messages.try_recv().ok()) {
            // A question whose request is over needs no answer.
            if !matches!(message, ServerMessage::Ask(_)) {
                self.forward(message);
            }
        }
        answered
    }

    /// What follows an answer. If a modern server wants input, a legacy requester is asked for it here.
    async fn handle_answer(&mut self, event: ConversationEvent, cancel: &CancellationToken) -> ConversationStep {
        let mut actions = self.step(event);
        let mut replies = Vec::new();
        for action in actions.extract_if(.., |action| matches!(action, ConversationAction::Ask { .. })) {
            if let ConversationAction::Ask { key, asking } = action {
                replies.push((key, self.ask(asking)));
            }
        }
        let until = Instant::now() + Duration::from_millis(INPUT_MS_MAX);
        let mut replies = replies.into_iter();
        loop {
            for action in actions {
                match action {
                    ConversationAction::SendAgain(continuation) => return ConversationStep::Again(continuation),
                    ConversationAction::End(end) => return ConversationStep::End(end),
                    _ => {}
                }
            }
            let Some((key, reply)) = replies.next() else { return ConversationStep::End(ConversationOutcome::Answer) };
            let event = tokio::select! {
                reply = reply => ConversationEvent::Replied { key, reply: reply.unwrap_or_else(|_| Err(not_asked())) },
                () = tokio::time::sleep_until(until) => ConversationEvent::Lapsed,
                () = cancel.cancelled() => {
                    let (method, why) = ("input".to_owned(), "the caller went away".to_owned());
                    return ConversationStep::End(ConversationOutcome::NotGiven(MissingInput { method, why }));
                }
            };
            actions = self.step(event);
        }
    }

    /// The questions of a modern server as the requester gets them. A question that may not be asked ends the request, because the server
    /// takes only answers, not an error in place of one.
    fn check_questions(
        &mut self,
        requests: Vec<(String, ServerQuestion)>,
    ) -> Result<Vec<(String, ClientQuestion)>, MissingInput> {
        let put =
            requests.into_iter().map(|(key, asking)| match self.rules.check_keyed(&key, asking, self.questions) {
                Ok(asking) => Ok((key, asking)),
                Err(RefusedQuestion { method, why }) => Err(MissingInput { method, why }),
            });
        put.collect()
    }

    fn handle_message(&mut self, message: ServerMessage) {
        let ServerMessage::Ask(UpstreamQuestion { method, params, reply }) = message else {
            return self.forward(message);
        };
        self.asked = true;
        let params = self.message_translator.translate_params(params);
        let asking = match self.rules.check(ServerQuestion { method, params }, self.questions) {
            Ok(asking) => asking,
            Err(not_put) => return drop(reply.send(Err(not_put.to_error()))),
        };
        let mut reply = Some(reply);
        for action in self.step(ConversationEvent::Asked(asking)) {
            match (action, reply.take()) {
                (ConversationAction::PassOn(question), Some(reply)) => {
                    self.message_translator
                        .send(&self.subscriber, ClientMessage::Ask(PendingQuestion { question, reply }));
                }
                (ConversationAction::Keep(key), Some(reply)) => drop(self.kept.insert(key, reply)),
                (ConversationAction::Gather, _) => {
                    self.gather_at = Some(Instant::now() + Duration::from_millis(GATHER_MS));
                }
                // A question whose reply is dropped is declined.
                _ => {}
            }
        }
    }

    async fn readmit(&mut self, returning_request: ReturningRequest) {
        let ReturningRequest { answers, waiting_requester } = returning_request;
        let actions = self.step(ConversationEvent::ClientReturned(answers));
        match (&self.parked_request, actions.first()) {
            (Some(parked_request), first) if !matches!(first, Some(ConversationAction::TurnAway)) => {
                parked_request.set_waiting(waiting_requester);
                self.lapse_at = None;
                self.perform_actions(actions).await;
            }
            _ => waiting_requester.refuse(already_waiting()),
        }
    }

    async fn lapse(&mut self) {
        self.lapse_at = None;
        if let Some(parked_request) = &self.parked_request {
            parked_request.set_lapse(None);
            self.bridge.parked.leave(parked_request);
        }
        self.handle_event(ConversationEvent::Lapsed).await;
    }

    async fn handle_event(&mut self, event: ConversationEvent) {
        let actions = self.step(event);
        self.perform_actions(actions).await;
    }

    async fn perform_actions(&mut self, actions: Vec<ConversationAction>) {
        for action in actions {
            match action {
                ConversationAction::Give { key, answer } => {
                    if let Some(reply) = self.kept.remove(&key) {
                        let _ = reply.send(Ok(answer));
                    }
                }
                ConversationAction::Decline(key) => drop(self.kept.remove(&key)),
                ConversationAction::Tell { input_requests } => self.tell_open_questions(&input_requests).await,
                _ => {}
            }
        }
    }

    /// Tells the waiting requester which questions are open and lets it go. If no place is left to park the request, the questions are
    /// declined.
    async fn tell_open_questions(&mut self, input_requests: &str) {
        if !self.park(input_requests).await {
            for action in self.step(ConversationEvent::NoRoom) {
                if let ConversationAction::Decline(key) = action {
                    self.kept.remove(&key);
                }
            }
        }
    }

    async fn park(&mut self, input_requests: &str) -> bool {
        let Some(parked_request) = &self.parked_request else { return false };
        if parked_request.is_abandoned() {
            return false;
        }
        if self.bridge.closing.is_cancelled() || !self.bridge.parked.enter(parked_request) {
            tracing::warn!(
                "questions of an upstream are declined: too many requests are parked, or the gateway is shutting down"
            );
            return false;
        }
        let carried = parked_request.parked_state(self.bridge.expiry(INPUT_MS_MAX));
        let Ok(state) = self.bridge.sign_state(&carried).await else { return false };
        let raw = format!(r#"{{"{}":{input_requests}}}"#, member::INPUT_REQUESTS);
        let members: RawObject<'_> = serde_json::from_str(&raw).unwrap_or_default();
        let lapses_at = Instant::now() + Duration::from_millis(INPUT_MS_MAX);
        self.lapse_at = Some(lapses_at);
        parked_request.set_lapse(Some(lapses_at));
        let _ = parked_request.reply(ParkedReply::Input(with_state(&members, &state)));
        true
    }

    /// Asks the legacy requester. The answer arrives on the returned receiver.
    fn ask(&self, question: ClientQuestion) -> oneshot::Receiver<QuestionReply> {
        let (reply, replied) = oneshot::channel();
        self.message_translator.send(&self.subscriber, ClientMessage::Ask(PendingQuestion { question, reply }));
        replied
    }

    fn step(&mut self, event: ConversationEvent) -> Vec<ConversationAction> {
        let Some(conversation_state) = self.conversation_state.take() else { return Vec::new() };
        let (conversation_state, actions) = conversation_state.step(event);
        self.conversation_state = Some(conversation_state);
        actions
    }

    fn forward(&self, message: ServerMessage) {
        let Some(message) = self.message_translator.translate(message) else { return };
        self.message_translator.keep_progress(&message);
        match &self.parked_request {
            None => drop(self.message_translator.send(&self.subscriber, message)),
            Some(parked_request) => parked_request.send(&self.message_translator, message),
        }
    }
}

/// The kind of an answer. It is determined only once, because an answer may be long.
enum UpstreamAnswerKind {
    Last,
    Task,
    WantsInput { requests: Vec<(String, ServerQuestion)>, state: Option<String> },
}

/// The kind of an answer. A task or a request for input that cannot be read counts as the last answer, whose check refuses it later.
fn answer_kind(answer: &Answer) -> UpstreamAnswerKind {
    if answer.era == Era::Legacy {
        return UpstreamAnswerKind::Last;
    }
    let written = shape::member(&answer.result, member::RESULT_TYPE);
    let written = written.and_then(|raw| serde_json::from_str::<String>(raw).ok());
    match written.as_deref() {
        Some(result_type::TASK | result_type::INPUT_REQUIRED) if shape::inspect(&answer.result).is_err() => {
            UpstreamAnswerKind::Last
        }
        Some(result_type::TASK) => UpstreamAnswerKind::Task,
        Some(result_type::INPUT_REQUIRED) => {
            let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
            wants_input(&members).unwrap_or(UpstreamAnswerKind::Last)
        }
        _ => UpstreamAnswerKind::Last,
    }
}

fn wants_input(members: &RawObject<'_>) -> Option<UpstreamAnswerKind> {
    let requests = members.get(member::INPUT_REQUESTS);
    let state = members.get(member::REQUEST_STATE);
    if requests.is_none() && state.is_none() {
        return None;
    }
    let state = state.map(|raw| serde_json::from_str(raw.get())).transpose().ok()?;
    let requests = requests.map_or_else(|| Some(Vec::new()), read_input_requests)?;
    Some(UpstreamAnswerKind::WantsInput { requests, state })
}

fn not_asked() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the client could not be asked")
}

async fn next_message<T>(receiver: &mut Option<&mut mpsc::Receiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}
