//! The shell around a dialogue: makes the request, hears what is said on the way, keeps the times, and performs what the
//! machine decides.

use std::{collections::BTreeMap, future::Future, pin::{Pin, pin}, sync::Arc, time::Duration};

use servanda_contract::record::QuestionRecord;
use servanda_mcp::{
    Era, RawObject, RpcError,
    envelope::code,
    fields::{member, result_type},
    shape,
};
use servanda_upstream::{Answer, Ask as ServerAsk, Continuation, PerformFailure, Remark as ServerRemark, Reply};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Bridge, INPUT_MS_MAX, at,
    dialogue::{Action, Dialogue, End, Event, Listener},
    outlet::{Hearer, Outlet},
    reception::{REMARKS_MAX, Reception, Turn, Visitor, still_waited_for},
    with_state,
};
use crate::{
    answers::upstream_failure,
    client::{Ask, Remark},
    delivery_template::Leg,
    questions::{
        Asking, NotGiven, NotPut, PutFailure, PutQuestion, QuestionRules, input_requests, read_input_requests,
    },
};

/// How long questions are gathered that arrive one after another and belong together.
const GATHER_MS: u64 = 20;

/// A request to a server that can be made again with what the server asked for.
pub(crate) trait Errand: Send {
    /// Makes it.
    fn send(&mut self, leg: Leg) -> impl Future<Output = Result<Answer, PerformFailure>> + Send;
}

/// One request and everybody who takes part.
#[derive(Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) bridge: &'a Bridge,
    pub(crate) listener: Listener,
    pub(crate) outlet: Outlet,
    /// Who hears remarks, where nobody can come again.
    pub(crate) hearer: Hearer,
    /// Where a modern guest can come again.
    pub(crate) reception: Option<Arc<Reception>>,
    /// Cancelled when the guest gives up.
    pub(crate) cancel: CancellationToken,
    pub(crate) deadline: Instant,
    pub(crate) continuation: Continuation,
    /// What the server may ask meanwhile.
    pub(crate) rules: QuestionRules,
}

/// What a modern server wants before it goes on.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) answer: Answer,
    /// Its questions as the guest gets them, as JSON.
    pub(crate) input_requests: String,
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The server's last word; whether somebody was asked something for it.
    Answered { answer: Answer, asked: bool },
    /// A modern server's, that the last word comes later.
    Task(Answer),
    /// There is none.
    Failed(PutFailure),
    /// The server wants input, and the modern guest can give it.
    Input(Wanted),
    /// The server wants input that the modern guest never said it could give; what it would have to declare, as JSON.
    Undeclared { answer: Answer, required: String },
    /// The legacy guest did not give what the server wanted.
    NotGiven { answer: Answer, what: NotGiven },
}

/// A conversation under way.
struct Shell<'a> {
    dialogue: Option<Dialogue>,
    bridge: &'a Bridge,
    outlet: Outlet,
    hearer: Hearer,
    reception: Option<Arc<Reception>>,
    /// Where answers to kept questions go.
    kept: BTreeMap<String, oneshot::Sender<Reply>>,
    gather_at: Option<Instant>,
    lapse_at: Option<Instant>,
    /// Whether the server asked for anything.
    asked: bool,
    rules: QuestionRules,
    /// What it asked, for the record.
    questions: &'a mut Vec<QuestionRecord>,
}

/// What follows an answer of the server.
enum Next {
    Again(Continuation),
    End(End),
}

impl Conversation<'_> {
    /// Makes the request and goes on to its last answer. The server's questions are added to `questions`.
    pub(crate) async fn run<E: Errand>(self, errand: &mut E, questions: &mut Vec<QuestionRecord>) -> Ending {
        let Self { bridge, listener, outlet, hearer, reception, cancel, mut deadline, mut continuation, rules } = self;
        let hears = hearer.sink.is_some() || reception.is_some() || outlet.ear.is_some();
        let (sink, mut remarks) = hears.then(|| mpsc::channel(REMARKS_MAX)).unzip();
        let host = reception.clone();
        let mut arrivals = match &host {
            Some(reception) => Some(reception.arrivals.lock().await),
            None => None,
        };
        let dialogue = Some(Dialogue::new(listener));
        let (kept, gather_at, lapse_at) = (BTreeMap::new(), None, None);
        let mut shell = Shell {
            dialogue,
            bridge,
            outlet,
            hearer,
            reception,
            kept,
            gather_at,
            lapse_at,
            asked: false,
            rules,
            questions,
        };
        let mut answered_before = false;
        loop {
            let leg = Leg { deadline, remarks: sink.clone(), continuation };
            let sent = pin!(errand.send(leg));
            let answer = match shell.attend(sent, remarks.as_mut(), arrivals.as_deref_mut()).await {
                Ok(answer) => answer,
                Err(failure) => return shell.failed(failure, answered_before),
            };
            answered_before = true;
            let asked_at = Instant::now();
            let (event, input_requests) = match kind(&answer) {
                Kind::Last => (Event::Concluded, String::new()),
                Kind::Task => return Ending::Task(answer),
                Kind::WantsInput { requests, state } => match shell.put(requests) {
                    Ok(requests) => {
                        let input_requests = input_requests(&requests);
                        (Event::WantsInput { requests, state }, input_requests)
                    }
                    Err(what) => return Ending::NotGiven { answer, what },
                },
            };
            match shell.follow(event, &cancel).await {
                Next::End(end) => return Ending::of(end, Wanted { answer, input_requests }, shell.asked),
                Next::Again(again) => (continuation, shell.asked) = (again, true),
            }
            // The server's time stands still while the guest is being asked.
            deadline += asked_at.elapsed();
        }
    }
}

impl Ending {
    fn of(end: End, wanted: Wanted, asked: bool) -> Self {
        if end == End::Input {
            return Self::Input(wanted);
        }
        let answer = wanted.answer;
        match end {
            End::Answer | End::Input => Self::Answered { answer, asked },
            End::Undeclared(required) => Self::Undeclared { answer, required },
            End::NotGiven(what) => Self::NotGiven { answer, what },
        }
    }
}

impl Shell<'_> {
    fn failed(&mut self, failure: PerformFailure, answered_before: bool) -> Ending {
        // A server that asked a question may have done something before it asked.
        let failure = if answered_before { upstream_failure::after_sending(failure) } else { failure };
        Ending::Failed(self.rules.put_failure(failure, self.questions))
    }

    /// Waits for the server's answer and hears everything else meanwhile. What was said before the answer is passed on
    /// before it.
    async fn attend(
        &mut self,
        mut sent: Pin<&mut impl Future<Output = Result<Answer, PerformFailure>>>,
        mut remarks: Option<&mut mpsc::Receiver<ServerRemark>>,
        mut arrivals: Option<&mut mpsc::Receiver<Visitor>>,
    ) -> Result<Answer, PerformFailure> {
        // Boxed, because most calls are asked nothing, and the state of a call has to have room for the largest of these.
        let answered = loop {
            tokio::select! {
                biased;
                answered = &mut sent => break answered,
                Some(remark) = next(&mut remarks) => self.hear(remark),
                Some(visitor) = next(&mut arrivals) => Box::pin(self.welcome(visitor)).await,
                () = at(self.gather_at) => {
                    self.gather_at = None;
                    Box::pin(self.happens(Event::Gathered)).await;
                }
                () = at(self.lapse_at) => Box::pin(self.lapse()).await,
                () = self.bridge.closing.cancelled(), if self.lapse_at.is_some() => Box::pin(self.lapse()).await,
            }
        };
        while let Some(remark) = remarks.as_mut().and_then(|remarks| remarks.try_recv().ok()) {
            // A question whose request is over needs no answer.
            if !matches!(remark, ServerRemark::Ask(_)) {
                self.pass_on(remark);
            }
        }
        answered
    }

    /// What follows an answer. A legacy guest is asked here what a modern server wants.
    async fn follow(&mut self, event: Event, cancel: &CancellationToken) -> Next {
        let mut actions = self.step(event);
        let mut replies = Vec::new();
        for action in actions.extract_if(.., |action| matches!(action, Action::Ask { .. })) {
            if let Action::Ask { key, asking } = action {
                replies.push((key, self.ask(asking)));
            }
        }
        let until = Instant::now() + Duration::from_millis(INPUT_MS_MAX);
        let mut replies = replies.into_iter();
        loop {
            for action in actions {
                match action {
                    Action::SendAgain(continuation) => return Next::Again(continuation),
                    Action::End(end) => return Next::End(end),
                    _ => {}
                }
            }
            let Some((key, reply)) = replies.next() else { return Next::End(End::Answer) };
            let event = tokio::select! {
                reply = reply => Event::Replied { key, reply: reply.unwrap_or_else(|_| Err(not_asked())) },
                () = tokio::time::sleep_until(until) => Event::Lapsed,
                () = cancel.cancelled() => {
                    let (method, why) = ("input".to_owned(), "the caller went away".to_owned());
                    return Next::End(End::NotGiven(NotGiven { method, why }));
                }
            };
            actions = self.step(event);
        }
    }

    /// The questions of a modern server as the guest gets them. A question that may not be asked ends the request: the server takes
    /// answers only, and no error in the place of one.
    fn put(&mut self, requests: Vec<(String, Asking)>) -> Result<Vec<(String, PutQuestion)>, NotGiven> {
        let put = requests.into_iter().map(|(key, asking)| match self.rules.put_under(&key, asking, self.questions) {
            Ok(asking) => Ok((key, asking)),
            Err(NotPut { method, why }) => Err(NotGiven { method, why }),
        });
        put.collect()
    }

    fn hear(&mut self, remark: ServerRemark) {
        let ServerRemark::Ask(ServerAsk { method, params, reply }) = remark else {
            return self.pass_on(remark);
        };
        self.asked = true;
        let params = self.outlet.params(params);
        let asking = match self.rules.put(Asking { method, params }, self.questions) {
            Ok(asking) => asking,
            Err(not_put) => return drop(reply.send(Err(not_put.to_error()))),
        };
        let mut reply = Some(reply);
        for action in self.step(Event::Asked(asking)) {
            match (action, reply.take()) {
                (Action::PassOn(question), Some(reply)) => {
                    self.outlet.pass(&self.hearer, Remark::Ask(Ask { question, reply }));
                }
                (Action::Keep(key), Some(reply)) => drop(self.kept.insert(key, reply)),
                (Action::Gather, _) => self.gather_at = Some(Instant::now() + Duration::from_millis(GATHER_MS)),
                // Dropped, it is declined.
                _ => {}
            }
        }
    }

    async fn welcome(&mut self, visitor: Visitor) {
        let Visitor { answers, waiter } = visitor;
        let actions = self.step(Event::CameAgain(answers));
        match (&self.reception, actions.first()) {
            (Some(reception), first) if !matches!(first, Some(Action::TurnAway)) => {
                reception.seat(waiter);
                self.lapse_at = None;
                self.perform(actions).await;
            }
            _ => waiter.refuse(still_waited_for()),
        }
    }

    async fn lapse(&mut self) {
        self.lapse_at = None;
        if let Some(reception) = &self.reception {
            reception.lapse_at(None);
            self.bridge.parked.leave(reception);
        }
        self.happens(Event::Lapsed).await;
    }

    async fn happens(&mut self, event: Event) {
        let actions = self.step(event);
        self.perform(actions).await;
    }

    async fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Give { key, answer } => {
                    if let Some(reply) = self.kept.remove(&key) {
                        let _ = reply.send(Ok(answer));
                    }
                }
                Action::Decline(key) => drop(self.kept.remove(&key)),
                Action::Tell { input_requests } => self.tell(&input_requests).await,
                _ => {}
            }
        }
    }

    /// Tells the waiting guest what is open and lets it go. Without a place to wait for it, what is open is declined.
    async fn tell(&mut self, input_requests: &str) {
        if !self.park(input_requests).await {
            for action in self.step(Event::NoRoom) {
                if let Action::Decline(key) = action {
                    self.kept.remove(&key);
                }
            }
        }
    }

    async fn park(&mut self, input_requests: &str) -> bool {
        let Some(reception) = &self.reception else { return false };
        if reception.is_deserted() {
            return false;
        }
        if self.bridge.closing.is_cancelled() || !self.bridge.parked.enter(reception) {
            tracing::warn!("questions of an upstream are declined: there is no place for a request that waits");
            return false;
        }
        let carried = reception.carried(self.bridge.expiry(INPUT_MS_MAX));
        let Ok(state) = self.bridge.close_state(&carried).await else { return false };
        let raw = format!(r#"{{"{}":{input_requests}}}"#, member::INPUT_REQUESTS);
        let members: RawObject<'_> = serde_json::from_str(&raw).unwrap_or_default();
        let lapses_at = Instant::now() + Duration::from_millis(INPUT_MS_MAX);
        self.lapse_at = Some(lapses_at);
        reception.lapse_at(Some(lapses_at));
        let _ = reception.tell(Turn::Input(with_state(&members, &state)));
        true
    }

    /// Asks the legacy guest; the answer comes on what is returned.
    fn ask(&self, question: PutQuestion) -> oneshot::Receiver<Reply> {
        let (reply, replied) = oneshot::channel();
        self.outlet.pass(&self.hearer, Remark::Ask(Ask { question, reply }));
        replied
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let Some(dialogue) = self.dialogue.take() else { return Vec::new() };
        let (dialogue, actions) = dialogue.step(event);
        self.dialogue = Some(dialogue);
        actions
    }

    fn pass_on(&self, remark: ServerRemark) {
        let Some(remark) = self.outlet.translate(remark) else { return };
        self.outlet.keep_progress(&remark);
        match &self.reception {
            None => drop(self.outlet.pass(&self.hearer, remark)),
            Some(reception) => reception.pass(&self.outlet, remark),
        }
    }
}

/// What kind of answer it is. Looked at once: an answer may be long.
enum Kind {
    Last,
    Task,
    WantsInput { requests: Vec<(String, Asking)>, state: Option<String> },
}

/// The kind of an answer. A task or a request for input that cannot be read counts as the last answer, whose check refuses it later.
fn kind(answer: &Answer) -> Kind {
    if answer.era == Era::Legacy {
        return Kind::Last;
    }
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
    let written = members.get(member::RESULT_TYPE).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    match written.as_deref() {
        Some(result_type::TASK | result_type::INPUT_REQUIRED) if shape::inspect(&answer.result).is_err() => Kind::Last,
        Some(result_type::TASK) => Kind::Task,
        Some(result_type::INPUT_REQUIRED) => wants_input(&members).unwrap_or(Kind::Last),
        _ => Kind::Last,
    }
}

fn wants_input(members: &RawObject<'_>) -> Option<Kind> {
    let requests = members.get(member::INPUT_REQUESTS);
    let state = members.get(member::REQUEST_STATE);
    if requests.is_none() && state.is_none() {
        return None;
    }
    let state = state.map(|raw| serde_json::from_str(raw.get())).transpose().ok()?;
    let requests = requests.map_or_else(|| Some(Vec::new()), read_input_requests)?;
    Some(Kind::WantsInput { requests, state })
}

fn not_asked() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "the client could not be asked")
}

async fn next<T>(receiver: &mut Option<&mut mpsc::Receiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}
