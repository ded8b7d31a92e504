//! A gateway of a few tools that do what a test tells them to: an implementation of the trait, not a copy of the
//! engine.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use servanda_contract::{CallId, GateName, Refusal, TaxonomyClass};
use servanda_doors::ServerIdentity;
use servanda_engine::{
    CallAnswer, CallRequest, ChangeEvent, ClientMessage, ClientMessageSink, ClientQuestion, Gateway, Inquiry,
    InquiryAnswer, InquirySubject, ListedTool, Listing, Notebook, PendingQuestion, PortFuture, RequestTerms, Requester,
    ResourceWatchGuard, ToolResult,
};
use servanda_mcp::{Era, RpcError};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::notebook::SlowNotebook;

pub(crate) const TOOLS: [&str; 5] = ["echo", "panic", "progress", "refuse", "slow"];

/// The gateway.
#[derive(Debug)]
pub(crate) struct Fixture {
    listing: Mutex<Arc<Listing>>,
    news: broadcast::Sender<ChangeEvent>,
    started: mpsc::Sender<Started>,
    /// What was asked of it and shows in no answer.
    events: watch::Sender<Vec<String>>,
    attending: Mutex<BTreeMap<String, mpsc::Sender<ClientMessage>>>,
    /// Whether lists are handed out; until then every `listing` waits.
    lists: watch::Sender<bool>,
    pub(crate) notebook: Arc<SlowNotebook>,
    /// Whether resources of the scheme `b` can be watched now.
    pub(crate) watchable: AtomicBool,
    /// Ends the calls of the tool `compute`.
    computing: watch::Sender<Vec<std::sync::mpsc::Sender<()>>>,
    /// The thread on which the last list was built.
    pub(crate) listed_on: Mutex<Option<String>>,
}

/// A call of the tool `slow`, running until it is released.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) cancel: CancellationToken,
    pub(crate) session: Option<String>,
    pub(crate) client_messages: Option<ClientMessageSink>,
    pub(crate) release: oneshot::Sender<()>,
    /// Sent when the call has run to its end.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// A gateway, and the channel on which its slow calls report.
pub(crate) fn fixture() -> (Arc<Fixture>, mpsc::Receiver<Started>) {
    let (started, receiver) = mpsc::channel(64);
    let events = watch::Sender::default();
    let notebook = Arc::new(SlowNotebook::telling(events.clone()));
    let fixture = Fixture {
        listing: Mutex::default(),
        news: broadcast::Sender::new(8),
        started,
        events,
        attending: Mutex::default(),
        lists: watch::Sender::new(true),
        notebook,
        watchable: AtomicBool::new(true),
        computing: watch::Sender::default(),
        listed_on: Mutex::default(),
    };
    fixture.offer(&TOOLS);
    (Arc::new(fixture), receiver)
}

pub(crate) fn identity() -> ServerIdentity {
    let instructions = Some("use \"echo\" first".to_owned());
    ServerIdentity { name: "servanda".to_owned(), version: "0.1.0".to_owned(), instructions }
}

/// Panics instead of hanging. Not a measurement.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("the future does not finish")
}

pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap()
}

/// A question of a server, and the channel for its answer.
pub(crate) fn ask(method: &str, params: &Value) -> (ClientMessage, oneshot::Receiver<servanda_engine::QuestionReply>) {
    let (reply, answered) = oneshot::channel();
    let question = ClientQuestion::unrestricted("up", method, Some(raw(params))).unwrap();
    (ClientMessage::Ask(PendingQuestion { question, reply }), answered)
}

/// An elicitation for any client that supports forms.
pub(crate) fn elicitation() -> Value {
    json!({"message": "sure?", "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}})
}

/// The same elicitation as a client gets it.
pub(crate) fn put_elicitation() -> Value {
    let mut put = elicitation();
    put["message"] = json!("[asked by the tool server `up`] sure?");
    put["_meta"] = json!({"servanda/asked-by": "up"});
    put
}

pub(crate) fn log_line(level: &str) -> ClientMessage {
    ClientMessage::LogMessage(raw(&json!({"level": level, "data": level})))
}

impl Fixture {
    /// Replaces the offered tools.
    pub(crate) fn offer(&self, names: &[&str]) {
        let definitions: Vec<Value> = names.iter().map(|name| definition(name)).collect();
        self.define(&definitions);
    }

    /// The same with whole definitions.
    pub(crate) fn define(&self, definitions: &[Value]) {
        // Pretty-printed, so that line breaks have to be dealt with.
        let pretty = |value: &Value| RawValue::from_string(serde_json::to_string_pretty(value).unwrap()).unwrap();
        let mut tools: Vec<Arc<ListedTool>> = definitions
            .iter()
            .map(|value| ListedTool::new(value["name"].as_str().unwrap().to_owned(), pretty(value)))
            .map(Arc::new)
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        let mut listing = self.listing.lock().unwrap();
        *listing = Arc::new(Listing { generation: listing.generation + 1, tools });
        let _ = self.news.send(ChangeEvent::Tools);
    }

    /// Lets requests for the list proceed, or makes them wait.
    pub(crate) fn give_lists(&self, given: bool) {
        self.lists.send_replace(given);
    }

    pub(crate) fn announce(&self, news: ChangeEvent) {
        let _ = self.news.send(news);
    }

    /// Announces that a resource changed.
    pub(crate) fn update(&self, uri: &str) {
        self.announce(ChangeEvent::Resource { uri: uri.into(), params: raw(&json!({"uri": uri})).into() });
    }

    /// Sends a message that belongs to no request to a session.
    pub(crate) async fn client_message(&self, affinity: &str, client_message: ClientMessage) {
        let sender = self.attending.lock().unwrap().get(affinity).cloned().expect("no session has this affinity");
        within(sender.send(client_message)).await.expect("the session is open");
    }

    /// The affinities of the open sessions.
    pub(crate) fn attending(&self) -> Vec<String> {
        self.attending.lock().unwrap().keys().cloned().collect()
    }

    /// Waits until an event has happened that many times.
    pub(crate) async fn happened(&self, event: &str, times: usize) {
        let mut events = self.events.subscribe();
        let often = |events: &Vec<String>| events.iter().filter(|seen| *seen == event).count() >= times;
        within(events.wait_for(often)).await.unwrap();
    }

    pub(crate) fn events(&self) -> Vec<String> {
        self.events.borrow().clone()
    }

    fn record(&self, event: String) {
        self.events.send_modify(|events| events.push(event));
    }
}

pub(crate) fn definition(name: &str) -> Value {
    json!({"name": name, "description": "a tool", "inputSchema": {"type": "object", "x-order": ["b", "a"]}})
}

impl Gateway for Fixture {
    fn listing<'a>(&'a self, _requester: &'a Requester) -> PortFuture<'a, Arc<Listing>> {
        Box::pin(async move {
            self.lists.subscribe().wait_for(|given| *given).await.unwrap();
            *self.listed_on.lock().unwrap() = std::thread::current().name().map(str::to_owned);
            Arc::clone(&self.listing.lock().unwrap())
        })
    }

    fn known_listing(&self, requester: &Requester) -> Arc<Listing> {
        // One principal sees no tools.
        if requester.caller.principal == "blind" { Arc::default() } else { self.whole_listing(requester) }
    }

    fn whole_listing(&self, _requester: &Requester) -> Arc<Listing> {
        Arc::clone(&self.listing.lock().unwrap())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        unreachable!("doors hear of changes through the news")
    }

    fn inquire(&self, inquiry: Inquiry) -> PortFuture<'_, Result<InquiryAnswer, RpcError>> {
        Box::pin(async move {
            let named = inquiry.params.iter().find(|(name, _)| matches!(name.as_str(), "uri" | "name" | "taskId"));
            if named.is_some_and(|(_, value)| value.get() == r#""missing""#) {
                let code = if inquiry.requester.era == Era::Modern { -32602 } else { -32002 };
                return Err(RpcError::new(code, "there is none"));
            }
            if named.is_some_and(|(_, value)| value.get() == r#""asking""#) {
                return ask_on_the_way(inquiry.requester.era, inquiry.terms)
                    .await
                    .map_err(|()| RpcError::new(-1, "declined"));
            }
            let facts = json!({
                "params": inquiry.params.iter().map(|(name, value)| json!([name, value.get()])).collect::<Vec<Value>>(),
                "terms": term_facts(&inquiry.terms),
                "requester": requester_facts(&inquiry.requester),
            });
            Ok(InquiryAnswer::Complete(inquired(inquiry.subject, inquiry.requester.era, &facts).to_string()))
        })
    }

    fn change_events(&self) -> broadcast::Receiver<ChangeEvent> {
        self.news.subscribe()
    }

    fn watch<'a>(
        &'a self,
        requester: &'a Requester,
        uri: &'a str,
    ) -> PortFuture<'a, Result<ResourceWatchGuard, RpcError>> {
        Box::pin(async move {
            if uri.starts_with("missing:") || !requester.authority.rights().resources.covers(uri) {
                let code = if requester.era == Era::Modern { -32602 } else { -32002 };
                return Err(RpcError::new(code, "no such resource"));
            }
            if uri.starts_with("b:") && !self.watchable.load(Ordering::SeqCst) {
                self.record(format!("not yet {uri}"));
                return Err(RpcError::new(-32603, "the server is down"));
            }
            self.record(format!("watch {uri}"));
            let (events, uri) = (self.events.clone(), uri.to_owned());
            Ok(ResourceWatchGuard::new(move || events.send_modify(|events| events.push(format!("unwatch {uri}")))))
        })
    }

    fn known_tasks<'a>(&'a self, _requester: &'a Requester, mut task_ids: Vec<String>) -> PortFuture<'a, Vec<String>> {
        Box::pin(async move {
            task_ids.retain(|task_id| task_id != "missing");
            task_ids
        })
    }

    fn set_log_level<'a>(&'a self, requester: &'a Requester, level: &'a str) -> PortFuture<'a, Result<(), RpcError>> {
        Box::pin(async move {
            self.record(format!("level {level} {}", requester.affinity));
            Ok(())
        })
    }

    fn roots_changed(&self, requester: &Requester) {
        self.record(format!("roots {}", requester.affinity));
    }

    fn subscribe_session(&self, affinity: &str) -> mpsc::Receiver<ClientMessage> {
        let (sender, receiver) = mpsc::channel(16);
        self.attending.lock().unwrap().insert(affinity.to_owned(), sender);
        receiver
    }

    fn end_session(&self, affinity: &str) {
        self.attending.lock().unwrap().remove(affinity);
        self.record(format!("leave {affinity}"));
    }

    fn notebook(&self) -> Arc<dyn Notebook> {
        Arc::clone(&self.notebook) as Arc<dyn Notebook>
    }

    fn call(&self, request: CallRequest) -> PortFuture<'_, CallAnswer> {
        Box::pin(async move {
            let facts = json!({
                "client": request.requester.caller.client,
                "session": request.requester.caller.session,
                "principal": request.requester.caller.principal,
                "callerWaitMs": request.terms.caller_wait_ms,
                "traceParent": request.terms.trace_parent,
                "chain": request.chain,
                "keys": keys_facts(&request.keys),
                "task": request.task,
                "requester": requester_facts(&request.requester),
                "terms": term_facts(&request.terms),
            });
            match request.tool.as_str() {
                "echo" => result(&String::from_utf8_lossy(&request.arguments), &facts),
                "refuse" => {
                    let refused = r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#;
                    CallAnswer::Result(ToolResult::plain(refused.to_owned(), true))
                }
                "progress" => {
                    let progress = request.terms.messages.expect("a progress token");
                    for step in [1, 2, 2, 1, 3] {
                        let client_message = ClientMessage::Progress(raw(&json!({"progress": step, "total": 3})));
                        progress.send(client_message).await.unwrap();
                    }
                    result("done", &facts)
                }
                "log" => {
                    if let Some(client_messages) = request.terms.messages {
                        for level in ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] {
                            client_messages.send(log_line(level)).await.unwrap();
                        }
                    }
                    result("logged", &facts)
                }
                "notify" => {
                    let client_messages = request.terms.messages.expect("a channel for messages");
                    let method = "notifications/progress".to_owned();
                    let params = Some(raw(&json!({"progressToken": "other", "progress": 1})));
                    client_messages.send(ClientMessage::Notification { method, params }).await.unwrap();
                    result("notified", &facts)
                }
                "ask" => match ask_on_the_way(request.requester.era, request.terms).await {
                    Ok(InquiryAnswer::Complete(reply)) => {
                        let reply: Value = serde_json::from_str(&reply).unwrap();
                        result(reply["text"].as_str().unwrap(), &facts)
                    }
                    Ok(InquiryAnswer::InputRequired(members)) => CallAnswer::InputRequired(members),
                    Err(()) => result("declined", &facts),
                },
                "begin" => CallAnswer::Task(task(request.requester.era).to_string()),
                "lack" => {
                    let data = json!({"requiredCapabilities": {"sampling": {}}});
                    CallAnswer::Failed(RpcError::new(-32021, "sampling is needed").with_data(&data))
                }
                "slow" => self.run_slowly(request).await,
                "thread" => result(std::thread::current().name().unwrap_or("unnamed"), &facts),
                "compute" => self.compute(&facts),
                "panic" => panic!("asked for"),
                _ => {
                    let message = format!("no tool is called `{}`", request.tool);
                    let hint = "list the tools".to_owned();
                    let class = TaxonomyClass::UnknownError;
                    let refusal = Refusal::new(CallId::new(), GateName::Resolve, class, message, hint);
                    CallAnswer::UnknownTool(Box::new(refusal))
                }
            }
        })
    }
}

impl Fixture {
    /// Waits for a call of the tool `compute`, and returns the sender that ends it.
    pub(crate) async fn computing(&self) -> std::sync::mpsc::Sender<()> {
        let mut computing = self.computing.subscribe();
        computing.wait_for(|computing| !computing.is_empty()).await.unwrap()[0].clone()
    }

    /// Blocks the thread for long, as the engine does when it judges large arguments.
    fn compute(&self, facts: &Value) -> CallAnswer {
        let (release, released) = std::sync::mpsc::channel();
        self.computing.send_modify(|computing| computing.push(release));
        let until_released = || released.recv().unwrap();
        match tokio::runtime::Handle::current().runtime_flavor() {
            tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(until_released),
            _ => until_released(),
        }
        result("computed", facts)
    }

    async fn run_slowly(&self, request: CallRequest) -> CallAnswer {
        let (release, released) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let session = request.requester.caller.session.clone();
        let RequestTerms { cancel, messages: client_messages, .. } = request.terms;
        self.started.send(Started { cancel, session: session.clone(), client_messages, release, ended }).await.unwrap();
        let _ = released.await;
        let _ = end.send(());
        result("late", &json!({"session": session}))
    }
}

/// Asks for an elicitation in the form of each era: a legacy client while the request runs, a modern one in the answer.
async fn ask_on_the_way(era: Era, terms: RequestTerms) -> Result<InquiryAnswer, ()> {
    if era == Era::Modern {
        let request = json!({"method": "elicitation/create", "params": {
            "mode": "form", "message": "sure?", "requestedSchema": {"type": "object", "properties": {}},
        }});
        let members = json!({"inputRequests": {"sure": request}, "requestState": "sealed"});
        return Ok(InquiryAnswer::InputRequired(members.to_string()));
    }
    let (question, answered) = ask("elicitation/create", &elicitation());
    terms.messages.ok_or(())?.send(question).await.map_err(|_| ())?;
    let text = match answered.await.map_err(|_| ())? {
        Ok(result) => result.get().to_owned(),
        Err(error) => format!("error {}", error.code),
    };
    let reply = json!({"contents": [{"uri": "a:asking", "text": text}], "messages": [], "text": text});
    Ok(InquiryAnswer::Complete(reply.to_string()))
}

fn term_facts(terms: &RequestTerms) -> Value {
    json!({
        "meta": terms.meta.iter().map(|(name, value)| json!([name, value.get()])).collect::<Vec<Value>>(),
        "wantsProgress": terms.wants_progress,
        "logLevel": terms.log_level,
        "hears": terms.messages.is_some(),
        "inputResponses": terms.input_responses.as_deref().map(RawValue::get),
        "requestState": terms.request_state,
    })
}

fn requester_facts(requester: &Requester) -> Value {
    json!({
        "era": format!("{:?}", requester.era),
        "capabilities": requester.capabilities.as_json(),
        "affinity": &*requester.affinity,
        "principal": requester.caller.principal,
    })
}

/// A result that matches its era's schema, with the facts in `_meta`, and with caching members if a modern server sends
/// them.
fn inquired(subject: InquirySubject, era: Era, facts: &Value) -> Value {
    let mut value = match subject {
        InquirySubject::Resources => {
            json!({"resources": [{"uri": "a:1", "name": "one"}], "ttlMs": 70, "cacheScope": "public"})
        }
        InquirySubject::ResourceTemplates => json!({"resourceTemplates": []}),
        InquirySubject::Resource => json!({"contents": [{"uri": "a:1", "text": "one"}], "resultType": "complete"}),
        InquirySubject::Prompts => json!({"prompts": [{"name": "p"}], "nextCursor": "more"}),
        InquirySubject::Prompt => json!({"messages": []}),
        InquirySubject::Completion => json!({"completion": {"values": ["v"]}}),
        InquirySubject::Task | InquirySubject::TaskCancel if era == Era::Legacy => task(era)["task"].clone(),
        InquirySubject::Task => task(era),
        InquirySubject::TaskUpdate | InquirySubject::TaskCancel => json!({}),
        InquirySubject::TaskResult => json!({"content": []}),
        InquirySubject::Tasks => json!({"tasks": [task(era)["task"]]}),
    };
    value["_meta"] = json!({"facts": facts});
    value
}

fn task(era: Era) -> Value {
    let at = "2026-11-15T09:35:32Z";
    let task = json!({"taskId": "t1", "status": "working", "createdAt": at, "lastUpdatedAt": at});
    match era {
        Era::Legacy => {
            let mut task = task;
            task["ttl"] = json!(1000);
            json!({"task": task})
        }
        Era::Modern => {
            let mut task = task;
            task["ttlMs"] = json!(1000);
            task
        }
    }
}

fn result(text: &str, facts: &Value) -> CallAnswer {
    let value = json!({
        "content": [{"type": "text", "text": text}],
        "_meta": {"servanda/observation": facts, "io.modelcontextprotocol/serverInfo": {"name": "upstream", "version": "9"}},
        "isError": false,
    });
    CallAnswer::Result(ToolResult::plain(serde_json::to_string_pretty(&value).unwrap(), false))
}

/// The error of a call that a closing door did not wait for: nothing in it invites the client to send the call again.
pub(crate) fn end_unknown() -> serde_json::Value {
    serde_json::json!({
        "code": -32603,
        "message": "the gateway is shutting down and does not know how the call ended",
        "data": {"hint": "look for the call with `servanda explain` before sending it again"},
    })
}

/// The idempotency and operation keys that a client sent.
fn keys_facts(keys: &servanda_engine::OperationKeys) -> Value {
    json!([keys.idempotency_key, keys.header_key, keys.operation_id, keys.step_id, keys.workflow_id, keys.run_id])
}
