//! A fenced call through the public interface: the evidence goes in and comes back, and the canonical bytes arrive.
#![expect(clippy::expect_used, reason = "a test says what it expects")]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use servanda_contract::{CallId, Caller, OperationKeys, Proposal, Refusal, Timestamp, document, time::Clock};
use servanda_effects::{InMemoryNotebook, effect::ClientKey};
use servanda_gates::{
    CompiledContract, ContractResolver, Fenced, GateLimits, RegisteredContracts, Stopwatch, Trail, admit,
    pass_question, pass_read, resolve,
};
use servanda_upstream::{
    PerformFailure, RequestOptions, Transport, Upstream, UpstreamLimits, UpstreamName, UpstreamSpec, UpstreamStatus,
};
use tokio::time::Instant;

#[derive(Debug)]
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(0)
    }
}

impl Stopwatch for NoTime {
    fn elapsed_us(&self) -> u64 {
        0
    }
}

/// Resolves every call to the same contract.
struct Only(Arc<CompiledContract>);

impl ContractResolver for Only {
    fn contract_of(&self, _proposal: &Proposal) -> Result<Arc<CompiledContract>, Box<Refusal>> {
        Ok(Arc::clone(&self.0))
    }
}

fn fenced(arguments: &'static str) -> Fenced {
    let contract = document::read("echo.yaml", include_str!("fixtures/echo.yaml")).expect("a contract");
    let contract = Arc::new(admit(contract, &RegisteredContracts::new()).expect("admitted"));
    let proposal = Proposal {
        call_id: CallId::new(),
        caller: Caller::local().into(),
        tool: "fixture.echo".to_owned(),
        arguments: Bytes::from_static(arguments.as_bytes()),
        received_at: Timestamp::from_unix_ms(0),
        trace_id: "0".repeat(32),
        chain: "test".to_owned(),
        caller_wait_ms: None,
        keys: OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    };
    let key = ClientKey::Call(proposal.call_id.clone());
    let limits = GateLimits { arguments_bytes_max: 10_000, arguments_depth_max: 10 };
    let mut trail = Trail::new(&NoTime);
    let resolved = resolve(Box::new(proposal), &Only(contract), &mut trail).expect("a contract");
    let cleared = pass_question(resolved, limits, &mut trail).expect("a request of the gateway itself");
    pass_read(cleared, &key, false).expect("a read")
}

fn upstream(id: &str) -> Upstream {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/stdio_server.py");
    let transport = Transport::Stdio {
        command: "python3".to_owned(),
        args: ["-S", "-E", script, "modern"].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    Upstream::new(
        UpstreamSpec { id: UpstreamName::from(id), transport, limits: UpstreamLimits::default() },
        Arc::new(InMemoryNotebook::default()),
    )
}

fn options() -> RequestOptions {
    RequestOptions::for_gateway(Instant::now() + Duration::from_mins(1))
}

#[tokio::test]
async fn a_fenced_call_is_performed_with_its_canonical_bytes() {
    let upstream = upstream("fixture");
    let fenced = fenced(r#"{ "text": "b", "note": "a" }"#);
    let call_id = fenced.call_id().clone();
    let performed = upstream.perform(fenced, options()).await;
    assert!(performed.sent);
    assert_eq!(*performed.fenced.call_id(), call_id);
    let result: serde_json::Value =
        serde_json::from_slice(&performed.outcome.expect("an answer").result).expect("JSON");
    assert_eq!(result["content"][0]["text"], r#"{"note":"a","text":"b"}"#);
    assert!(matches!(upstream.status(), UpstreamStatus::Ready { .. }));
    upstream.shutdown().await;
}

#[tokio::test]
async fn a_call_for_another_upstream_is_not_sent() {
    let upstream = upstream("elsewhere");
    let performed = upstream.perform(fenced(r#"{"text":"x"}"#), options()).await;
    assert!(!performed.sent);
    let failure = performed.outcome.expect_err("a failure");
    assert!(matches!(failure, PerformFailure::Unavailable { .. }) && failure.provably_not_executed(), "{failure}");
    assert_eq!(upstream.status(), UpstreamStatus::NotConnected);
}
