//! A request under way, as a door watches it: what is said on the way, then the answer, or nothing any more once cancelled.
//!
//! The work is done where its answer is waited for, without a task of its own. Nothing here stops it: a call that has been
//! dispatched is read to its end and recorded whether or not its client still waits. So the work gets a task of its own when
//! its [`Running`] is dropped, and when it says something on the way, because the client that reads that may be slow. A request that
//! is cancelled, or whose [`Running`] is dropped where that means the same, has its token cancelled, and the engine decides
//! what that means.

use std::{fmt, panic::AssertUnwindSafe, pin::Pin, sync::Arc};

use futures_util::FutureExt as _;
use http::StatusCode;
use servanda_contract::Feedback;
use servanda_engine::{CallAnswer, CallRequest, Gateway, Inquiry, InquiryAnswer, Remark, Subject};
use servanda_mcp::{
    Era, Id, RpcError,
    envelope::{self, code},
    fields::member,
    task,
};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    fault::{Fault, LOOK_FIRST},
    greeting::{Greeting, LIST_TTL_MS},
    in_flight::Entry,
    places::Place,
    remarks::Relay,
    request::Departure,
    session::Session,
    splice::{self, ResultType, Ttl},
};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Errand {
    Call(Box<CallRequest>),
    Inquiry(Box<Inquiry>),
}

/// Who waits for the answer, and in which form.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) id: Id,
    pub(crate) era: Era,
    pub(crate) greeting: Arc<Greeting>,
    pub(crate) session: Option<Arc<Session>>,
}

/// What is held until the work is done, whoever waits for it, and until whoever waits has the answer out.
#[derive(Debug)]
#[expect(dead_code, reason = "held to be dropped")]
pub(crate) struct Held {
    /// Its place among all requests.
    pub(crate) permit: Place,
    /// Its place among the session's or the connection's unanswered ones.
    pub(crate) entry: Option<Entry>,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Running {
    asker: Asker,
    work: Work,
    held: Option<Held>,
    remarks: Option<mpsc::Receiver<Remark>>,
    relay: Relay,
    finished: Option<Answered>,
    cancel: CancellationToken,
    _cancel_on_drop: Option<DropGuard>,
}

/// The work of a request.
enum Work {
    /// It is done where its answer is waited for.
    Here(Pin<Box<dyn Future<Output = Worked> + Send>>),
    /// It has a task of its own.
    Apart(JoinHandle<Worked>),
    Done,
}

/// What came of the work.
type Worked = Result<(Outcome, Held), Lost>;

/// The work ended without an outcome: it panicked, or its runtime ended.
#[derive(Debug)]
struct Lost(&'static str);

/// What happened to a request.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message on the way.
    Said(Vec<u8>),
    /// The answer.
    Answered(Answered),
    /// The caller does not want an answer any more.
    Cancelled,
}

/// An answer, and the status a door of HTTP gives it.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) message: Vec<u8>,
    pub(crate) status: StatusCode,
    /// Every scope the call needs, where more scopes are all that is missing.
    pub(crate) scopes_needed: Vec<String>,
}

/// How the work ended.
#[derive(Debug)]
enum Outcome {
    Call(CallAnswer),
    Inquiry { subject: Subject, continued: bool, answer: Result<InquiryAnswer, RpcError> },
}

impl Errand {
    async fn run(self, gateway: &impl Gateway, session: Option<&Session>) -> Outcome {
        match self {
            Self::Call(request) => Outcome::Call(gateway.call(*request).await),
            Self::Inquiry(inquiry) => {
                remember_task(gateway, &inquiry, session).await;
                let subject = inquiry.subject;
                let continued = inquiry.terms.input_responses.is_some() || inquiry.terms.request_state.is_some();
                Outcome::Inquiry { subject, continued, answer: gateway.inquire(*inquiry).await }
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

/// Has a session hear of a task that somebody asks about there, if the credential they came with is for it. Before it is asked
/// about: its end may be waited for.
async fn remember_task(gateway: &impl Gateway, inquiry: &Inquiry, session: Option<&Session>) {
    let (Subject::Task | Subject::TaskResult, Some(session)) = (inquiry.subject, session) else { return };
    let raw = inquiry.params.iter().find(|(name, _)| name == member::TASK_ID).map(|(_, raw)| raw);
    let task_id = raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    if let Some(task_id) = task_id.filter(|task_id| !session.knows_task(task_id)) {
        for known in gateway.known_tasks(&inquiry.guest, vec![task_id]).await {
            session.remember_task(&known);
        }
    }
}

impl Work {
    fn new<G: Gateway>(gateway: Arc<G>, errand: Errand, held: Held, session: Option<Arc<Session>>) -> Self {
        let work = async move {
            let outcome = errand.run(&*gateway, session.as_deref()).await;
            // If the client has left, this is dropped at once.
            (outcome, held)
        };
        // A panic ends this request, and neither the connection it came on nor the others there.
        let work = AssertUnwindSafe(work).catch_unwind();
        Self::Here(Box::pin(work.map(|worked| worked.map_err(|_| Lost("it panicked")))))
    }

    /// Waits for the end. Cancel safe; not to be called again after it.
    async fn ended(&mut self) -> Worked {
        let worked = match self {
            Self::Here(work) => work.await,
            Self::Apart(work) => work.await.unwrap_or(Err(Lost("its runtime ended"))),
            Self::Done => Err(Lost("it was waited for twice")),
        };
        *self = Self::Done;
        worked
    }

    /// Gives the work a task of its own, if it has none and is not done.
    fn go_apart(&mut self, runtime: &Handle) {
        match std::mem::replace(self, Self::Done) {
            Self::Here(work) => *self = Self::Apart(runtime.spawn(work)),
            other => *self = other,
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Here(_) => "Here",
            Self::Apart(_) => "Apart",
            Self::Done => "Done",
        })
    }
}

impl Running {
    /// A request whose work begins when it is waited for.
    pub(crate) fn new<G: Gateway>(
        gateway: Arc<G>,
        errand: Errand,
        held: Held,
        asker: Asker,
        watched: (Option<mpsc::Receiver<Remark>>, Relay),
        departure: Departure,
    ) -> Self {
        let cancel = errand.cancel().clone();
        let work = Work::new(gateway, errand, held, asker.session.clone());
        let (remarks, relay) = watched;
        let guard = (departure == Departure::Cancels).then(|| cancel.clone().drop_guard());
        Self { asker, work, held: None, remarks, relay, finished: None, _cancel_on_drop: guard, cancel }
    }

    /// Runs the work in a task of that runtime; its answer is awaited where it was before.
    pub(crate) fn go_apart(&mut self, runtime: &Handle) {
        self.work.go_apart(runtime);
    }

    /// Whether anything can be said on the way.
    pub(crate) fn may_say_something(&self) -> bool {
        self.remarks.is_some()
    }

    /// The answer of a door that cannot wait any longer.
    pub(crate) fn end_unknown(&self) -> Vec<u8> {
        Fault::end_unknown().message(Some(&self.asker.id))
    }

    /// Waits for what happens next; not to be called again after the last event. Cancel safe.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if self.cancel.is_cancelled() {
                return Event::Cancelled;
            }
            if self.finished.is_some() {
                return self.last_words();
            }
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Event::Cancelled,
                Some(remark) = next_remark(self.remarks.as_mut()) => if let Some(message) = self.relay.pass(remark) {
                    // The client that reads it may take any time.
                    self.work.go_apart(&Handle::current());
                    return Event::Said(message);
                },
                worked = self.work.ended() => {
                    let (outcome, held) = worked.map_or_else(|lost| (Err(lost), None), |(outcome, held)| (Ok(outcome), Some(held)));
                    self.held = held;
                    self.finished = Some(self.asker.answered(outcome));
                }
            }
        }
    }

    /// What was said before the answer goes out before it; what was asked is not asked any more.
    fn last_words(&mut self) -> Event {
        while let Some(remark) = self.remarks.as_mut().and_then(|remarks| remarks.try_recv().ok()) {
            if !matches!(remark, Remark::Ask(_))
                && let Some(message) = self.relay.pass(remark)
            {
                return Event::Said(message);
            }
        }
        if let Some(message) = self.relay.withdraw() {
            return Event::Said(message);
        }
        self.finished.take().map_or(Event::Cancelled, Event::Answered)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Without a runtime there is nothing left that could do it.
        if matches!(self.work, Work::Here(_))
            && let Ok(runtime) = Handle::try_current()
        {
            self.work.go_apart(&runtime);
        }
    }
}

impl Asker {
    fn answered(&self, mut outcome: Result<Outcome, Lost>) -> Answered {
        let scopes_needed = match &mut outcome {
            Ok(Outcome::Call(CallAnswer::Result(result))) => std::mem::take(&mut result.scopes_needed),
            _ => Vec::new(),
        };
        let result = match outcome {
            Ok(Outcome::Call(answer)) => self.of_call(answer),
            Ok(Outcome::Inquiry { subject, continued, answer }) => self.of_inquiry(subject, continued, answer),
            Err(Lost(why)) => {
                tracing::error!(request = %self.id, why, "the work of a request ended without an answer");
                Err(Fault::internal("the request ended without an answer; whether it had an effect is not known")
                    .hint(LOOK_FIRST))
            }
        };
        match result {
            Ok(result) => {
                Answered { message: envelope::response(&self.id, &result), status: StatusCode::OK, scopes_needed }
            }
            Err(fault) => Answered { message: fault.message(Some(&self.id)), status: fault.status, scopes_needed },
        }
    }

    fn of_call(&self, answer: CallAnswer) -> Result<String, Fault> {
        let (json, kind) = match answer {
            CallAnswer::Result(result) => (result.json, ResultType::Complete),
            CallAnswer::InputRequired(json) => (json, ResultType::InputRequired),
            CallAnswer::Task(json) => (json, ResultType::Task),
            CallAnswer::UnknownTool(refusal) => {
                let error =
                    RpcError::new(code::INVALID_PARAMS, refusal.message.clone()).with_data(&Feedback::from_refusal(&refusal));
                return Err(Fault::answered(self.era, error));
            }
            CallAnswer::Failed(error) => return Err(Fault::answered(self.era, error)),
        };
        match (self.era, kind) {
            (Era::Modern, kind) => self.typed(&json, kind),
            (Era::Legacy, ResultType::InputRequired) => Err(asked_by_answer()),
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

    fn of_inquiry(
        &self,
        subject: Subject,
        continued: bool,
        answer: Result<InquiryAnswer, RpcError>,
    ) -> Result<String, Fault> {
        let (cacheable, meta_member) = (ttl_ms(subject), &self.greeting.meta_member);
        match (self.era, answer.map_err(|error| Fault::answered(self.era, error))?) {
            (Era::Modern, InquiryAnswer::InputRequired(json)) => self.typed(&json, ResultType::InputRequired),
            (Era::Modern, InquiryAnswer::Complete(json)) => match cacheable {
                // What depends on a client's answers is nobody's to keep, whatever its server says.
                Some(_) if continued => splice::cacheable(&json, Ttl::None, meta_member).ok_or_else(not_an_object),
                Some(ttl_ms) => splice::cacheable(&json, Ttl::Unless(ttl_ms), meta_member).ok_or_else(not_an_object),
                None => self.typed(&splice::untyped(json, false).ok_or_else(not_an_object)?, ResultType::Complete),
            },
            (Era::Legacy, InquiryAnswer::Complete(json)) => {
                splice::untyped(json, cacheable.is_some()).ok_or_else(not_an_object)
            }
            (Era::Legacy, InquiryAnswer::InputRequired(_)) => Err(asked_by_answer()),
        }
    }

    fn typed(&self, json: &str, kind: ResultType) -> Result<String, Fault> {
        splice::typed(json, kind, &self.greeting.meta_member).ok_or_else(not_an_object)
    }
}

/// How long a result may be cached if its server does not say: none where it may not be at all.
const fn ttl_ms(subject: Subject) -> Option<u64> {
    match subject {
        Subject::Resources | Subject::ResourceTemplates | Subject::Prompts => Some(LIST_TTL_MS),
        // Nobody but its server knows how long a resource stays as it is.
        Subject::Resource => Some(0),
        Subject::Prompt
        | Subject::Completion
        | Subject::Task
        | Subject::TaskUpdate
        | Subject::TaskCancel
        | Subject::TaskResult
        | Subject::Tasks => None,
    }
}

fn not_an_object() -> Fault {
    Fault::internal("the result is not a JSON object")
}

/// The engine asks legacy clients on the way, so this is its mistake.
fn asked_by_answer() -> Fault {
    Fault::internal("the server asks for input in a way that this revision of the protocol does not have")
}

async fn next_remark(remarks: Option<&mut mpsc::Receiver<Remark>>) -> Option<Remark> {
    match remarks {
        Some(remarks) => remarks.recv().await,
        None => None,
    }
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
