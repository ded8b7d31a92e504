//! Whole connections against servers that misbehave: real child processes and real sockets, through the function under
//! [`Upstream::perform`](crate::Upstream::perform). No test waits for a duration or asserts on one.

mod http;
mod stdio;
mod stdio_lifecycle;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::tool::EffectClass;
use servanda_gates::{FleetingNotebook, Notebook};
use tokio::time::Instant;

use crate::{
    Counterpart, Delivery, Limits, PerformFailure, Transport, Upstream, UpstreamId, UpstreamSpec,
    dispatch::Called,
    failure::UpstreamError,
    process::{Process, Program},
};

/// Long enough for a loaded machine; nothing is expected to take it.
const PATIENCE: Duration = Duration::from_mins(1);
/// Long enough that a connected server would have answered; used where it is known not to.
const IMPATIENCE: Duration = Duration::from_millis(300);

fn notebook() -> Arc<dyn Notebook> {
    Arc::new(FleetingNotebook::default())
}

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn python(script: &str, args: &[&str]) -> Vec<String> {
    let mut all = vec!["-S".to_owned(), "-E".to_owned(), fixture(script)];
    all.extend(args.iter().map(|&arg| arg.to_owned()));
    all
}

fn limits() -> Limits {
    Limits { message_bytes_max: 1024 * 1024, probe_ms_max: 20_000, restart_backoff_ms: 10, ..Limits::default() }
}

fn stdio_spec(args: &[&str], limits: Limits) -> UpstreamSpec {
    let transport = Transport::Stdio {
        command: "python3".to_owned(),
        args: python("stdio_server.py", args),
        env: BTreeMap::from([("SECRET".to_owned(), "s3cret-value".to_owned())]),
        env_pass: Vec::new(),
        cwd: None,
    };
    UpstreamSpec { id: UpstreamId::from("fixture"), transport, limits }
}

fn stdio(mode: &str) -> Upstream {
    Upstream::new(stdio_spec(&[mode], limits()), notebook())
}

fn delivery(patience: Duration) -> Delivery {
    Delivery::until(Instant::now() + patience)
}

async fn call_with(upstream: &Upstream, tool: &str, arguments: &'static str, delivery: Delivery) -> Called {
    upstream.call_tool(tool, &Bytes::from_static(arguments.as_bytes()), EffectClass::R, delivery).await
}

async fn call(upstream: &Upstream, tool: &str) -> Called {
    call_with(upstream, tool, "{}", delivery(PATIENCE)).await
}

/// The text of the answer.
fn text(called: Called) -> String {
    let result = called.outcome.expect("an answer").result;
    let value: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert!(called.sent);
    value["content"][0]["text"].as_str().expect("a text").to_owned()
}

fn failure(called: Called) -> PerformFailure {
    let failure = called.outcome.expect_err("a failure");
    assert!(called.sent || failure.provably_not_executed(), "{failure}");
    failure
}

async fn echoes(upstream: &Upstream) {
    let called = call_with(upstream, "echo", r#"{"x":1}"#, delivery(PATIENCE)).await;
    assert_eq!(text(called), r#"{"x":1}"#);
}

async fn list_failure(upstream: &Upstream) -> UpstreamError {
    upstream.tools(&Counterpart::nobody()).await.expect_err("a failure")
}
