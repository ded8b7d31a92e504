//! Discovery against a real legacy server. It offers one more tool each time it is asked on a connection, and starts with more for a
//! client with more capabilities. So the catalog shows how often the server was asked, and for which client.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use servanda_catalog::{Catalog, inference::infer, names::ExposedNaming, pins::Definition};
use servanda_contract::{CallId, Caller, Proposal, Timestamp};
use servanda_effects::InMemoryNotebook;
use servanda_gates::{RegisteredContracts, admit};
use servanda_mcp::ClientCapabilities;
use servanda_upstream::{Transport, Upstream, UpstreamLimits, UpstreamName, UpstreamSpec};
use tokio_util::sync::CancellationToken;

use super::Discovery;
use crate::client::Requester;

const SCRIPT: &str = r#"
next=0
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"server/discover"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}\n' "$id" ;;
    *'"initialize"'*)
      case "$line" in *'"roots":{'*) next=1 ;; *'"sampling":{'*) next=2 ;; *'"elicitation":{'*) next=3 ;; esac
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"growing","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*)
      next=$((next + 1))
      tools='' number=0
      while [ $number -lt $next ]; do
        number=$((number + 1))
        tools="$tools${tools:+,}{\"name\":\"tool_$number\",\"inputSchema\":{\"type\":\"object\"}}"
      done
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}\n' "$id" "$tools" ;;
  esac
done
"#;

const TOOLS: [&str; 4] = ["tool_1", "tool_2", "tool_3", "tool_4"];

/// Long enough for anything that must happen.
const PATIENCE: Duration = Duration::from_mins(1);

fn discovery(command: &str) -> (Arc<Discovery>, Upstream) {
    let contracts = TOOLS.map(|tool| {
        let definition = json!({ "name": tool, "inputSchema": { "type": "object" } });
        let definition = Definition::read(&definition.to_string()).unwrap();
        admit(infer("growing", &definition).unwrap().contract, &RegisteredContracts::new()).unwrap()
    });
    let transport = Transport::Stdio {
        command: command.to_owned(),
        args: ["-c", SCRIPT].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        env_pass: Vec::new(),
        cwd: None,
    };
    let spec = UpstreamSpec { id: UpstreamName("growing".to_owned()), transport, limits: UpstreamLimits::default() };
    let upstream = Upstream::new(spec, Arc::new(InMemoryNotebook::default()));
    let catalog = Arc::new(Catalog::new(contracts, ExposedNaming::Bare).unwrap());
    let upstreams = BTreeMap::from([("growing".to_owned(), upstream.clone())]);
    (Arc::new(Discovery::new(catalog, &upstreams)), upstream)
}

fn requester(capabilities: &str) -> Requester {
    let raw = serde_json::value::RawValue::from_string(capabilities.to_owned()).unwrap();
    Requester { capabilities: ClientCapabilities::parse(Some(&raw)), ..Requester::local() }
}

fn proposal(tool: &str) -> Proposal {
    Proposal {
        call_id: CallId::new(),
        caller: Caller::local().into(),
        tool: tool.to_owned(),
        arguments: bytes::Bytes::new(),
        received_at: Timestamp::from_unix_ms(0),
        trace_id: String::new(),
        chain: String::new(),
        caller_wait_ms: None,
        keys: servanda_contract::OperationKeys::default(),
        aims: servanda_contract::expectation::Aims::default(),
    }
}

async fn names(discovery: &Discovery, requester: &Requester) -> usize {
    discovery.listing(requester, |_| true).await.tools.len()
}

/// However many calls come at once to a server that was never asked, it is asked once before them, and then not again.
#[tokio::test]
async fn a_server_is_asked_once_before_calls() {
    let (discovery, upstream) = discovery("sh");
    let nobody = Requester::local();
    assert_eq!(names(&discovery, &nobody).await, TOOLS.len(), "no list is known yet, so all contracts are listed");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let discovery = discovery.clone();
        calls.spawn(async move { discovery.refresh_for_call(&proposal("tool_1"), &Requester::local()).await });
    }
    calls.join_all().await;
    assert_eq!(names(&discovery, &nobody).await, 1);
    discovery.refresh_for_call(&proposal("tool_2"), &nobody).await;
    discovery.refresh_for_call(&proposal("no_such_tool"), &nobody).await;
    assert_eq!(names(&discovery, &nobody).await, 1);
    upstream.shutdown().await;
}

/// For a requester with capabilities, a legacy server is asked for a list on its behalf; requesters with the same capabilities share it.
#[tokio::test]
async fn lists_are_made_by_what_clients_can_do() {
    let (discovery, upstream) = discovery("sh");
    let (nobody, silent) = (Requester::local(), requester(r#"{"experimental":{}}"#));
    let (roots, sampling) = (requester(r#"{"roots":{}}"#), requester(r#"{"sampling":{}}"#));
    assert_eq!(names(&discovery, &roots).await, TOOLS.len(), "there is no connection, so the server is not asked");
    discovery.refresh_for_call(&proposal("tool_1"), &nobody).await;
    assert_eq!(names(&discovery, &roots).await, 2);
    assert_eq!(names(&discovery, &roots).await, 2, "once");
    assert_eq!(names(&discovery, &sampling).await, 3);
    assert_eq!(names(&discovery, &silent).await, 1, "a requester without capabilities gets the common list");
    assert_eq!(names(&discovery, &nobody).await, 1);
    let resolves = |requester: &Requester| discovery.catalog.resolve("tool_2", &requester.capabilities).is_ok();
    assert_eq!([&nobody, &roots, &sampling].map(resolves), [false, true, true]);
    // A call of a client that never asked for a list is also decided by a list of its own.
    let elicitation = requester(r#"{"elicitation":{}}"#);
    discovery.refresh_for_call(&proposal("tool_4"), &elicitation).await;
    assert!(discovery.catalog.resolve("tool_4", &elicitation.capabilities).is_ok());
    upstream.shutdown().await;
}

/// A probe finds a server's change that was not announced.
#[tokio::test]
async fn silent_changes_are_found() {
    let (discovery, upstream) = discovery("sh");
    let stop = CancellationToken::new();
    let following = discovery.clone().follow("growing".to_owned(), Duration::from_millis(5), stop.clone());
    let following = tokio::spawn(following);
    let mut changes = discovery.catalog.changes();
    let all = async {
        // All tools are listed before the server is asked, so this waits for the first answer and then for the last tool.
        while changes.changed().await.is_ok() {
            if discovery.catalog.listing(&ClientCapabilities::none()).tools.len() == TOOLS.len() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    stop.cancel();
    following.await.unwrap();
    upstream.shutdown().await;
}

/// The tools of an upstream that cannot be asked stay; they are only marked as unavailable.
#[tokio::test]
async fn an_upstream_that_cannot_be_asked_is_unavailable() {
    let (discovery, upstream) = discovery("no-such-program-anywhere");
    discovery.refresh_for_call(&proposal("tool_1"), &Requester::local()).await;
    assert!(discovery.catalog.unreachable_reason("growing").unwrap().contains("no-such-program-anywhere"));
    assert!(discovery.catalog.resolve("tool_1", &ClientCapabilities::none()).is_ok());
    let listing = discovery.listing(&Requester::local(), |_| true).await;
    assert!(listing.tools.iter().all(|tool| tool.definition.get().contains(r#""availability":"unavailable""#)));
    upstream.shutdown().await;
}
