//! A gateway of a few tools that do what a test tells them to: the other side of the trait, not a copy of the engine.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use servanda_contract::{CallId, GateName, Refusal, TaxonomyClass};
use servanda_doors::ServerIdentity;
use servanda_engine::{
    CallAnswer, CallRequest, FleetingNotebook, Gateway, Guest, Inquiry, InquiryAnswer, ListedTool, Listing, News,
    Notebook, Remark, ToolResult, Watch,
};
use servanda_mcp::RpcError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub(crate) const TOOLS: [&str; 5] = ["echo", "panic", "progress", "refuse", "slow"];

/// The gateway.
#[derive(Debug)]
pub(crate) struct Fixture {
    listing: Mutex<Arc<Listing>>,
    changes: watch::Sender<u64>,
    started: mpsc::Sender<Started>,
}

/// A call of the tool `slow`, under way until it is released.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) cancel: CancellationToken,
    pub(crate) session: Option<String>,
    pub(crate) release: oneshot::Sender<()>,
    /// Sent when the call has run to its end.
    pub(crate) ended: oneshot::Receiver<()>,
}

/// A gateway, and where its slow calls report.
pub(crate) fn fixture() -> (Arc<Fixture>, mpsc::Receiver<Started>) {
    let (started, receiver) = mpsc::channel(64);
    // Three changes before anybody listens, which nobody must hear of.
    let changes = watch::Sender::new(3);
    let fixture = Fixture { listing: Mutex::default(), changes, started };
    fixture.offer(&TOOLS);
    (Arc::new(fixture), receiver)
}

pub(crate) fn identity() -> ServerIdentity {
    let instructions = Some("use \"echo\" first".to_owned());
    ServerIdentity { name: "servanda".to_owned(), version: "0.1.0".to_owned(), instructions }
}

/// Fails instead of hanging. Not a measurement.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future).await.expect("it takes forever")
}

impl Fixture {
    /// Replaces the tools on offer.
    pub(crate) fn offer(&self, names: &[&str]) {
        let mut names = names.to_vec();
        names.sort_unstable();
        let tools = names.into_iter().map(|name| ListedTool { name: name.to_owned(), definition: definition(name) });
        let mut listing = self.listing.lock().unwrap();
        *listing = Arc::new(Listing { generation: listing.generation + 1, tools: tools.collect() });
        self.changes.send_modify(|generation| *generation += 1);
    }
}

/// Pretty-printed, so that line breaks have to be dealt with.
fn definition(name: &str) -> Box<RawValue> {
    let value =
        json!({"name": name, "description": "a tool", "inputSchema": {"type": "object", "x-order": ["b", "a"]}});
    RawValue::from_string(serde_json::to_string_pretty(&value).unwrap()).unwrap()
}

impl Gateway for Fixture {
    async fn listing(&self, _guest: &Guest) -> Arc<Listing> {
        Arc::clone(&self.listing.lock().unwrap())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        let mut receiver = self.changes.subscribe();
        receiver.mark_changed();
        receiver
    }

    async fn inquire(&self, inquiry: Inquiry) -> Result<InquiryAnswer, RpcError> {
        Err(RpcError::new(-32601, format!("no such method: `{}`", inquiry.subject.method())))
    }

    fn news(&self) -> broadcast::Receiver<News> {
        broadcast::Sender::new(1).subscribe()
    }

    async fn watch(&self, _guest: &Guest, _uri: &str) -> Result<Watch, RpcError> {
        Ok(Watch::new(|| ()))
    }

    async fn set_log_level(&self, _guest: &Guest, _level: &str) -> Result<(), RpcError> {
        Ok(())
    }

    fn roots_changed(&self, _guest: &Guest) {}

    fn attend(&self, _affinity: &str) -> mpsc::Receiver<Remark> {
        mpsc::channel(1).1
    }

    fn leave(&self, _affinity: &str) {}

    fn notebook(&self) -> Arc<dyn Notebook> {
        Arc::new(FleetingNotebook::default())
    }

    async fn call(&self, request: CallRequest) -> CallAnswer {
        let facts = json!({
            "client": request.guest.caller.client,
            "session": request.guest.caller.session,
            "principal": request.guest.caller.principal,
            "callerWaitMs": request.terms.caller_wait_ms,
            "traceParent": request.terms.trace_parent,
            "chain": request.chain,
        });
        match request.tool.as_str() {
            "echo" => result(&String::from_utf8_lossy(&request.arguments), &facts),
            "refuse" => CallAnswer::Result(ToolResult {
                json: r#"{"content":[{"type":"text","text":"no"}],"isError":true}"#.to_owned(),
                is_error: true,
            }),
            "progress" => {
                let progress = request.terms.remarks.expect("a progress token");
                for step in 1..=3 {
                    progress
                        .send(Remark::Progress(to_raw_value(&json!({"progress": step, "total": 3})).unwrap()))
                        .await
                        .unwrap();
                }
                result("done", &facts)
            }
            "slow" => self.run_slowly(request).await,
            "panic" => panic!("asked for"),
            _ => {
                let message = format!("no tool is called `{}`", request.tool);
                let hint = "list the tools".to_owned();
                let class = TaxonomyClass::UnknownError;
                let refusal = Refusal::new(CallId::new(), GateName::Resolve, class, message, hint);
                CallAnswer::UnknownTool(Box::new(refusal))
            }
        }
    }
}

impl Fixture {
    async fn run_slowly(&self, request: CallRequest) -> CallAnswer {
        let (release, released) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let started =
            Started { cancel: request.terms.cancel, session: request.guest.caller.session.clone(), release, ended };
        self.started.send(started).await.unwrap();
        let _ = released.await;
        let _ = end.send(());
        result("late", &json!({"session": request.guest.caller.session}))
    }
}

fn result(text: &str, facts: &Value) -> CallAnswer {
    let value = json!({
        "content": [{"type": "text", "text": text}],
        "_meta": {"servanda/observation": facts, "io.modelcontextprotocol/serverInfo": {"name": "upstream", "version": "9"}},
        "isError": false,
    });
    CallAnswer::Result(ToolResult { json: serde_json::to_string_pretty(&value).unwrap(), is_error: false })
}

/// The error of a call that a closing door did not wait for: nothing in it invites to send the call again.
pub(crate) fn end_unknown() -> serde_json::Value {
    serde_json::json!({
        "code": -32603,
        "message": "the gateway is shutting down and does not know how the call ended",
        "data": {"hint": "look for the call with `servanda explain` before sending it again"},
    })
}
