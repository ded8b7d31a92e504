//! Whole connections against servers that misbehave: real child processes and real sockets, through the function under
//! [`Upstream::perform`](crate::Upstream::perform). No test waits for a duration or asserts on one.

mod both_eras;
mod credentials;
mod eras;
mod http;
mod late;
mod old_http;
mod questions;
mod requesters;
mod requests;
mod resumption;
mod server_messages;
mod stdio;
mod stdio_lifecycle;
mod watches;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use servanda_contract::{Caller, tool::EffectClass};
use servanda_effects::{InMemoryNotebook, Notebook};
use servanda_mcp::ClientCapabilities;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::mpsc,
    time::Instant,
};

use crate::{
    PerformFailure, RequestOptions, RequestUser, ServerMessage, ServerMessageSender, Transport, Upstream,
    UpstreamLimits, UpstreamName, UpstreamQuestion, UpstreamRequester, UpstreamSpec,
    dispatch::DispatchOutcome,
    failure::UpstreamError,
    stdio::process::{ChildPipes, ServerProcess, ServerProgram},
};

/// Long enough for a loaded machine; nothing is expected to take it.
const ANSWER_WAIT_MAX: Duration = Duration::from_mins(1);
/// Long enough that a connected server would have answered; used where it is known not to.
const IMPATIENCE: Duration = Duration::from_millis(300);

fn notebook() -> Arc<dyn Notebook> {
    Arc::new(InMemoryNotebook::default())
}

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn python(script: &str, args: &[&str]) -> Vec<String> {
    let mut all = vec!["-S".to_owned(), "-E".to_owned(), fixture(script)];
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    all
}

fn limits() -> UpstreamLimits {
    UpstreamLimits {
        message_bytes_max: 1024 * 1024,
        probe_ms_max: 20_000,
        restart_backoff_ms: 10,
        ..UpstreamLimits::default()
    }
}

fn stdio_spec(args: &[&str], limits: UpstreamLimits) -> UpstreamSpec {
    let transport = Transport::Stdio {
        command: "python3".to_owned(),
        args: python("stdio_server.py", args),
        env: BTreeMap::from([("SECRET".to_owned(), "s3cret-value".to_owned())]),
        env_pass: Vec::new(),
        cwd: None,
    };
    UpstreamSpec { id: UpstreamName::from("fixture"), transport, limits }
}

fn stdio(mode: &str) -> Upstream {
    Upstream::new(stdio_spec(&[mode], limits()), notebook())
}

fn options(pausable_deadline: Duration) -> RequestOptions {
    RequestOptions::for_gateway(Instant::now() + pausable_deadline)
}

async fn call_with(
    upstream: &Upstream,
    tool: &str,
    arguments: &'static str,
    options: RequestOptions,
) -> DispatchOutcome {
    upstream.call_tool(tool, &Bytes::from_static(arguments.as_bytes()), EffectClass::R, options).await
}

async fn call(upstream: &Upstream, tool: &str) -> DispatchOutcome {
    call_with(upstream, tool, "{}", options(ANSWER_WAIT_MAX)).await
}

/// The text of the answer.
fn text(called: DispatchOutcome) -> String {
    let result = called.outcome.expect("an answer").result;
    let value: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert!(called.sent);
    value["content"][0]["text"].as_str().expect("a text").to_owned()
}

fn failure(called: DispatchOutcome) -> PerformFailure {
    let failure = called.outcome.expect_err("a failure");
    assert!(called.sent || failure.provably_not_executed(), "{failure}");
    failure
}

async fn echoes(upstream: &Upstream) {
    let called = call_with(upstream, "echo", r#"{"x":1}"#, options(ANSWER_WAIT_MAX)).await;
    assert_eq!(text(called), r#"{"x":1}"#);
}

async fn list_failure(upstream: &Upstream) -> UpstreamError {
    upstream.tools(&UpstreamRequester::gateway()).await.expect_err("a failure")
}

/// A server process that ends with the test.
struct Server {
    url: String,
    _process: ServerProcess,
    _input: tokio::process::ChildStdin,
}

async fn serve(traits: &str) -> Server {
    let args = python("http_server.py", &[traits]);
    let env = BTreeMap::new();
    let program =
        ServerProgram { command: "python3", args: &args, env: &env, env_pass: &[], credentials: &[], cwd: None };
    let (process, ChildPipes { input, output, .. }) = ServerProcess::start(program).unwrap();
    let mut port = String::new();
    tokio::time::timeout(ANSWER_WAIT_MAX, BufReader::new(output).read_line(&mut port)).await.unwrap().unwrap();
    Server { url: format!("http://127.0.0.1:{}/mcp", port.trim()), _process: process, _input: input }
}

fn client(url: &str) -> Upstream {
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer tok_secret_1".to_owned())]);
    let transport = Transport::Http { url: url.to_owned(), headers };
    Upstream::new(UpstreamSpec { id: UpstreamName::from("fixture"), transport, limits: limits() }, notebook())
}

async fn seen(upstream: &Upstream) -> Vec<String> {
    serde_json::from_str(&text(call(upstream, "seen").await)).unwrap()
}

/// Whether a process runs; a zombie does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

async fn until_gone(pid: &str) {
    tokio::time::timeout(ANSWER_WAIT_MAX, async {
        while runs(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the process is gone");
}

/// Waits until something is so that comes by itself.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(ANSWER_WAIT_MAX, waiting).await.is_ok(), "not in time: {what}");
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn requester(affinity: &str, capabilities: &str) -> UpstreamRequester {
    let capabilities = ClientCapabilities::parse(Some(&raw(capabilities)));
    UpstreamRequester { capabilities, affinity: affinity.into(), ..UpstreamRequester::gateway() }
}

/// The same for a user of a tenant.
fn client_of(tenant: &str, principal: &str, affinity: &str, capabilities: &str) -> UpstreamRequester {
    let caller = Arc::new(Caller::named(tenant, principal));
    UpstreamRequester { on_behalf_of: Some(RequestUser::Recorded(caller)), ..requester(affinity, capabilities) }
}

/// The terms of a request that is made for a requester.
fn options_for(requester: &UpstreamRequester) -> RequestOptions {
    RequestOptions { requester: requester.clone(), ..options(ANSWER_WAIT_MAX) }
}

/// The same, heard by whoever has the other end.
fn heard_options(requester: &UpstreamRequester) -> (RequestOptions, mpsc::Receiver<ServerMessage>) {
    let (sink, server_messages) = mpsc::channel(8);
    (RequestOptions { server_messages: Some(sink), ..options_for(requester) }, server_messages)
}

async fn call_json(upstream: &Upstream, tool: &str, arguments: &Value, options: RequestOptions) -> DispatchOutcome {
    let arguments = Bytes::from(arguments.to_string());
    upstream.call_tool(tool, &arguments, EffectClass::R, options).await
}

/// The text of an answer, read as JSON.
fn json_text(called: DispatchOutcome) -> Value {
    serde_json::from_str(&text(called)).unwrap()
}

/// The next server message, which must be a question.
async fn next_ask(server_messages: &mut mpsc::Receiver<ServerMessage>) -> UpstreamQuestion {
    match tokio::time::timeout(ANSWER_WAIT_MAX, server_messages.recv()).await.expect("a remark in time") {
        Some(ServerMessage::Ask(ask)) => ask,
        other => panic!("no question: {other:?}"),
    }
}
