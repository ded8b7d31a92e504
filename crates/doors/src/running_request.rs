//! A running request, as a door watches it: first messages, then the answer; nothing more once it is cancelled.
//!
//! The work runs inside the task that waits for its answer. Nothing here stops it: a call that has been dispatched is
//! read to its end and recorded whether or not its client still waits. So the work gets a task of its own when its
//! [`RunningRequest`] is dropped, and when it sends a message before its answer, because the client that reads it may
//! be slow. If a request is cancelled, or its [`RunningRequest`] is dropped and that means cancellation, its token is
//! cancelled, and the engine decides what that means.

use std::{fmt, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt as _;
use http::StatusCode;
use servanda_contract::Feedback;
use servanda_engine::{CallAnswer, CallRequest, ClientMessage, Gateway, Inquiry, InquiryAnswer, InquirySubject};
use servanda_mcp::{
    Era, Id, RpcError,
    envelope::{self, code},
    fields::member,
    task,
};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    client_messages::ClientMessageRelay,
    fault::{LOOK_FIRST, ProtocolFault},
    in_flight::ClientRequestEntry,
    request::ClientDisconnectPolicy,
    server_info::{LIST_TTL_MS, RenderedServerInfo},
    session::LegacyClientSession,
    slots::CallerSlot,
    splice::{self, ResultType, Ttl},
};

/// What the engine is asked to do.
#[derive(Debug)]
pub(crate) enum EngineRequest {
    Call(Box<CallRequest>),
    Inquiry(Box<Inquiry>),
}

/// How to render the answer.
#[derive(Debug)]
pub(crate) struct AnswerRenderer {
    pub(crate) id: Id,
    pub(crate) era: Era,
    pub(crate) server_info: Arc<RenderedServerInfo>,
    pub(crate) session: Option<Arc<LegacyClientSession>>,
}

/// What is held until the work is done and its answer is out, whether or not the client still waits.
#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped")]
pub(crate) struct RunningRequestSlots {
    /// Its place among all requests.
    pub(crate) slot: CallerSlot,
    /// Its place among the unanswered requests of the session or connection.
    pub(crate) entry: Option<ClientRequestEntry>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    renderer: AnswerRenderer,
    work: DoorWork,
    slots: Option<RunningRequestSlots>,
    client_messages: Option<mpsc::Receiver<ClientMessage>>,
    relay: ClientMessageRelay,
    finished: Option<RenderedAnswer>,
    cancel: CancellationToken,
    _cancel_on_drop: Option<DropGuard>,
}

/// The work of a request.
enum DoorWork {
    /// It runs inside the task that waits for the answer.
    Inline(Pin<Box<dyn Future<Output = DoorWorkResult> + Send>>),
    /// It has a task of its own.
    Spawned(JoinHandle<DoorWorkResult>),
    Done,
}

/// The result of the work.
type DoorWorkResult = Result<(DoorWorkOutcome, RunningRequestSlots), DoorWorkLost>;

/// The work ended without an outcome: it panicked, or its runtime ended.
#[derive(Debug)]
struct DoorWorkLost(&'static str);

/// What happened to a request.
#[derive(Debug)]
pub(crate) enum RunningRequestEvent {
    /// A message before the answer.
    Message(Vec<u8>),
    /// The answer.
    Answered(RenderedAnswer),
    /// The client no longer wants an answer.
    Cancelled,
}

/// An answer, and its HTTP status.
#[derive(Debug)]
pub(crate) struct RenderedAnswer {
    pub(crate) message: Vec<u8>,
    pub(crate) status: StatusCode,
    /// Every scope the call needs, if only scopes are missing.
    pub(crate) scopes_needed: Vec<String>,
}

/// How the work ended.
#[derive(Debug)]
enum DoorWorkOutcome {
    Call(CallAnswer),
    Inquiry { subject: InquirySubject, continued: bool, answer: Result<InquiryAnswer, RpcError> },
}

impl EngineRequest {
    async fn run(self, gateway: &impl Gateway, session: Option<&LegacyClientSession>) -> DoorWorkOutcome {
        match self {
            Self::Call(request) => DoorWorkOutcome::Call(gateway.call(*request).await),
            Self::Inquiry(inquiry) => {
                remember_task(gateway, &inquiry, session).await;
                let subject = inquiry.subject;
                let continued = inquiry.terms.input_responses.is_some() || inquiry.terms.request_state.is_some();
                DoorWorkOutcome::Inquiry { subject, continued, answer: gateway.inquire(*inquiry).await }
            }
        }
    }

    fn cancel(&self) -> &CancellationToken {
        match self {
            Self::Call(request) => &request.terms.cancel,
            Self::Inquiry(inquiry) => &inquiry.terms.cancel,
        }
    }
}

/// Lets a session receive updates about a task that its client asks about, if the request's credential may see the
/// task. Done before the inquiry itself, because the inquiry may wait for the task's end.
async fn remember_task(gateway: &impl Gateway, inquiry: &Inquiry, session: Option<&LegacyClientSession>) {
    let (InquirySubject::Task | InquirySubject::TaskResult, Some(session)) = (inquiry.subject, session) else { return };
    let raw = inquiry.params.iter().find(|(name, _)| name == member::TASK_ID).map(|(_, raw)| raw);
    let task_id = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    if let Some(task_id) = task_id.filter(|task_id| !session.knows_task(task_id)) {
        for known in gateway.known_tasks(&inquiry.requester, vec![task_id]).await {
            session.remember_task(&known);
        }
    }
}

impl DoorWork {
    fn new<G: Gateway>(
        gateway: Arc<G>,
        engine_request: EngineRequest,
        slots: RunningRequestSlots,
        session: Option<Arc<LegacyClientSession>>,
    ) -> Self {
        let work = async move {
            let outcome = engine_request.run(&*gateway, session.as_deref()).await;
            // If the client has left, this is dropped at once.
            (outcome, slots)
        };
        // A panic ends this request only, not its connection or the other requests on it.
        let work = AssertUnwindSafe(work).catch_unwind();
        Self::Inline(Box::pin(work.map(|worked| worked.map_err(|_| DoorWorkLost("the task panicked")))))
    }

    /// Waits for the end. Cancel safe; must not be called again afterwards.
    async fn finished(&mut self) -> DoorWorkResult {
        let worked = match self {
            Self::Inline(work) => work.await,
            Self::Spawned(work) => work.await.unwrap_or(Err(DoorWorkLost("the runtime ended"))),
            Self::Done => Err(DoorWorkLost("the result was awaited twice")),
        };
        *self = Self::Done;
        worked
    }

    /// Gives the work a task of its own, if it has none and is not done.
    fn spawn_on(&mut self, runtime: &Handle) {
        match std::mem::replace(self, Self::Done) {
            Self::Inline(work) => *self = Self::Spawned(runtime.spawn(work)),
            other => *self = other,
        }
    }
}

impl fmt::Debug for DoorWork {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Inline(_) => "Here",
            Self::Spawned(_) => "Apart",
            Self::Done => "Done",
        })
    }
}

impl RunningRequest {
    /// A request whose work begins when it is awaited.
    pub(crate) fn new<G: Gateway>(
        gateway: Arc<G>,
        engine_request: EngineRequest,
        slots: RunningRequestSlots,
        renderer: AnswerRenderer,
        watched: (Option<mpsc::Receiver<ClientMessage>>, ClientMessageRelay),
        disconnect_policy: ClientDisconnectPolicy,
    ) -> Self {
        let cancel = engine_request.cancel().clone();
        let work = DoorWork::new(gateway, engine_request, slots, renderer.session.clone());
        let (client_messages, relay) = watched;
        let guard = (disconnect_policy == ClientDisconnectPolicy::Cancel).then(|| cancel.clone().drop_guard());
        Self { renderer, work, slots: None, client_messages, relay, finished: None, _cancel_on_drop: guard, cancel }
    }

    /// Runs the work in a task of that runtime. The answer is still awaited here.
    pub(crate) fn spawn_on(&mut self, runtime: &Handle) {
        self.work.spawn_on(runtime);
    }

    /// Whether messages can come before the answer.
    pub(crate) fn may_stream(&self) -> bool {
        self.client_messages.is_some()
    }

    /// The answer if the door cannot wait any longer.
    pub(crate) fn end_unknown(&self) -> Vec<u8> {
        ProtocolFault::outcome_unknown().message(Some(&self.renderer.id))
    }

    /// Waits for the next event; must not be called again after the last event. Cancel safe.
    pub(crate) async fn next(&mut self) -> RunningRequestEvent {
        loop {
            if self.cancel.is_cancelled() {
                return RunningRequestEvent::Cancelled;
            }
            if self.finished.is_some() {
                return self.flush_messages();
            }
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return RunningRequestEvent::Cancelled,
                Some(client_message) = next_client_message(self.client_messages.as_mut()) => if let Some(message) = self.relay.render(client_message) {
                    // The client may read it slowly.
                    self.work.spawn_on(&Handle::current());
                    return RunningRequestEvent::Message(message);
                },
                worked = self.work.finished() => {
                    let (outcome, held) = worked.map_or_else(|lost| (Err(lost), None), |(outcome, held)| (Ok(outcome), Some(held)));
                    self.slots = held;
                    self.finished = Some(self.renderer.render(outcome));
                }
            }
        }
    }

    /// Sends the messages that came before the answer, then the answer. Pending questions are not asked any more.
    fn flush_messages(&mut self) -> RunningRequestEvent {
        while let Some(client_message) =
            self.client_messages.as_mut().and_then(|client_messages| client_messages.try_recv().ok())
        {
            if !matches!(client_message, ClientMessage::Ask(_))
                && let Some(message) = self.relay.render(client_message)
            {
                return RunningRequestEvent::Message(message);
            }
        }
        if let Some(message) = self.relay.withdraw() {
            return RunningRequestEvent::Message(message);
        }
        self.finished.take().map_or(RunningRequestEvent::Cancelled, RunningRequestEvent::Answered)
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        // Without a runtime nothing is left that could run the work.
        if matches!(self.work, DoorWork::Inline(_))
            && let Ok(runtime) = Handle::try_current()
        {
            self.work.spawn_on(&runtime);
        }
    }
}

impl AnswerRenderer {
    fn render(&self, mut outcome: Result<DoorWorkOutcome, DoorWorkLost>) -> RenderedAnswer {
        let scopes_needed = match &mut outcome {
            Ok(DoorWorkOutcome::Call(CallAnswer::Result(result))) => std::mem::take(&mut result.scopes_needed),
            _ => Vec::new(),
        };
        let result = match outcome {
            Ok(DoorWorkOutcome::Call(answer)) => self.render_call(answer),
            Ok(DoorWorkOutcome::Inquiry { subject, continued, answer }) => {
                self.render_inquiry(subject, continued, answer)
            }
            Err(DoorWorkLost(why)) => {
                tracing::error!(request = %self.id, why, "a request ended without an answer");
                Err(ProtocolFault::internal("the request ended without an answer; whether it had an effect is unknown")
                    .hint(LOOK_FIRST))
            }
        };
        match result {
            Ok(result) => {
                RenderedAnswer { message: envelope::response(&self.id, &result), status: StatusCode::OK, scopes_needed }
            }
            Err(fault) => {
                RenderedAnswer { message: fault.message(Some(&self.id)), status: fault.status, scopes_needed }
            }
        }
    }

    fn render_call(&self, answer: CallAnswer) -> Result<String, ProtocolFault> {
        let (json, kind) = match answer {
            CallAnswer::Result(result) => (result.json, ResultType::Complete),
            CallAnswer::InputRequired(json) => (json, ResultType::InputRequired),
            CallAnswer::Task(json) => (json, ResultType::Task),
            CallAnswer::UnknownTool(refusal) => {
                let error = RpcError::new(code::INVALID_PARAMS, refusal.message.clone())
                    .with_data(&Feedback::from_refusal(&refusal));
                return Err(ProtocolFault::from_rpc_error(self.era, error));
            }
            CallAnswer::Failed(error) => return Err(ProtocolFault::from_rpc_error(self.era, error)),
        };
        match (self.era, kind) {
            (Era::Modern, kind) => self.typed(&json, kind),
            (Era::Legacy, ResultType::InputRequired) => Err(input_not_supported()),
            (Era::Legacy, kind) => {
                if kind == ResultType::Task
                    && let Some(session) = &self.session
                    && let Some(task_id) = task::legacy_id(&json)
                {
                    session.remember_task(&task_id);
                }
                Ok(json)
            }
        }
    }

    fn render_inquiry(
        &self,
        subject: InquirySubject,
        continued: bool,
        answer: Result<InquiryAnswer, RpcError>,
    ) -> Result<String, ProtocolFault> {
        let (cacheable, meta_member) = (ttl_ms(subject), &self.server_info.meta_member);
        match (self.era, answer.map_err(|error| ProtocolFault::from_rpc_error(self.era, error))?) {
            (Era::Modern, InquiryAnswer::InputRequired(json)) => self.typed(&json, ResultType::InputRequired),
            (Era::Modern, InquiryAnswer::Complete(json)) => match cacheable {
                // A result that depends on a client's answers must not be cached, whatever its server says.
                Some(_) if continued => splice::cacheable(&json, Ttl::None, meta_member).ok_or_else(not_an_object),
                Some(ttl_ms) => splice::cacheable(&json, Ttl::Unless(ttl_ms), meta_member).ok_or_else(not_an_object),
                None => self.typed(&splice::untyped(json, false).ok_or_else(not_an_object)?, ResultType::Complete),
            },
            (Era::Legacy, InquiryAnswer::Complete(json)) => {
                splice::untyped(json, cacheable.is_some()).ok_or_else(not_an_object)
            }
            (Era::Legacy, InquiryAnswer::InputRequired(_)) => Err(input_not_supported()),
        }
    }

    fn typed(&self, json: &str, kind: ResultType) -> Result<String, ProtocolFault> {
        splice::typed(json, kind, &self.server_info.meta_member).ok_or_else(not_an_object)
    }
}

/// How long a result may be cached if its server does not say; `None` if it must not be cached.
const fn ttl_ms(subject: InquirySubject) -> Option<u64> {
    match subject {
        InquirySubject::Resources | InquirySubject::ResourceTemplates | InquirySubject::Prompts => Some(LIST_TTL_MS),
        // Only the server knows how long a resource stays unchanged.
        InquirySubject::Resource => Some(0),
        InquirySubject::Prompt
        | InquirySubject::Completion
        | InquirySubject::Task
        | InquirySubject::TaskUpdate
        | InquirySubject::TaskCancel
        | InquirySubject::TaskResult
        | InquirySubject::Tasks => None,
    }
}

fn not_an_object() -> ProtocolFault {
    ProtocolFault::internal("the result is not a JSON object")
}

/// The engine asks legacy clients while the request runs, so this is the engine's mistake.
fn input_not_supported() -> ProtocolFault {
    ProtocolFault::internal("the server asks for input in a way that this protocol revision does not support")
}

async fn next_client_message(client_messages: Option<&mut mpsc::Receiver<ClientMessage>>) -> Option<ClientMessage> {
    match client_messages {
        Some(client_messages) => client_messages.recv().await,
        None => None,
    }
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
