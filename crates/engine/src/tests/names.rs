//! Names that agents learned in an earlier world, before a reload or from another process.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use servanda_catalog::{
    Catalog, CatalogError,
    names::{ExposedNaming, NamePolicy, NameTable, upstream_tool},
};
use servanda_contract::{Caller, GateName, OperationKeys, Refusal, record::Outcome};
use servanda_effects::{Note, NoteKind, Notebook as _, effect::EffectEnding};
use servanda_gates::{RegisteredContracts, admit};
use servanda_mcp::Era;
use servanda_upstream::WebhookAddress;

use super::conversations::{input, result, told};
use crate::{
    Authorities, CallAnswer, CallRequest, Gateway as _, RequestTerms, Requester, SystemClock,
    callbacks::{Callback, CallbackSubscription, Callbacks, SigningSecret, WebhookReceiver, deliveries},
    testing::{EngineHarness, ScriptedServer, again, call, draft, requester, said, snapshot, snapshot_of, text},
    world::{
        RESULT_TOOL, WorldSnapshot,
        names::{TOOLS, recall},
        server::UpstreamServer,
    },
};

fn saying(what: &'static str) -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), move |_| async move { Ok(text(Era::Modern, what)) })
}

fn echo(tool: &str) -> CallRequest {
    call(&requester(Era::Modern, &json!({})), tool, RequestTerms::default())
}

fn refusal(answer: CallAnswer) -> Refusal {
    match answer {
        CallAnswer::UnknownTool(refusal) => *refusal,
        other => panic!("it means a tool: {other:?}"),
    }
}

/// How often an upstream was called.
fn calls(server: &ScriptedServer) -> usize {
    server.heard().iter().filter(|line| line.contains("tools/call")).count()
}

/// The same gateway in another process: only what the store has is left.
async fn restarted(
    before: &EngineHarness,
    naming: ExposedNaming,
    servers: &[(&str, Arc<ScriptedServer>)],
) -> EngineHarness {
    let names = recall(before.notebook.as_ref(), now()).await.unwrap().expect("names are remembered");
    let snapshot = snapshot(naming, servers).after_names(&names).unwrap();
    EngineHarness::in_snapshot(snapshot, before.notebook.clone(), Arc::new(SystemClock))
}

fn now() -> servanda_contract::Timestamp {
    servanda_contract::time::Clock::now(&SystemClock)
}

#[tokio::test]
async fn a_tool_that_was_renamed_is_found_by_its_old_name() {
    let server = saying("done");
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    harness.engine.remember_world().await;
    let other = restarted(&harness, ExposedNaming::Prefixed, &[("up", server.clone())]).await;
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Prefixed, &[("up", server.clone())])).await.unwrap();
    for harness in [&harness, &other] {
        let listing = harness.engine.listing(&Requester::local()).await;
        let listed: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(listed, ["up__echo", "up__write"], "old names are not on the list");
        for name in ["echo", "up__echo"] {
            assert_eq!(told(harness.engine.call(echo(name)).await), "done");
            let record = harness.last_record();
            let contract = record.contract.unwrap();
            assert_eq!((record.tool.as_str(), contract.name.as_str()), (name, "up.echo"), "as it was called");
        }
        // The gates judge the call as always, by the present contract.
        let odd = CallRequest { arguments: bytes::Bytes::from_static(br#"{"text":7}"#), ..echo("echo") };
        let refused = result(harness.engine.call(odd).await);
        assert_eq!(refused["isError"], true);
        assert_eq!(harness.last_record().refusal.unwrap().gate, GateName::Types);
    }
    assert!(matches!(harness.engine.call(echo("up__ech")).await, CallAnswer::UnknownTool(_)), "nothing is guessed");
}

#[tokio::test]
async fn a_tool_that_is_gone_is_refused_in_those_words() {
    let server = saying("done");
    let harness = EngineHarness::new(ExposedNaming::Prefixed, &[("up", server.clone()), ("other", server.clone())]);
    harness.engine.remember_world().await;
    let other = restarted(&harness, ExposedNaming::Prefixed, &[("other", server.clone())]).await;
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Prefixed, &[("other", server.clone())])).await.unwrap();
    for harness in [&harness, &other] {
        let refused = refusal(harness.engine.call(echo("up__echo")).await);
        assert_eq!(refused.message, "`up__echo` is no longer offered by `up`");
        assert_eq!((harness.last_record().outcome, calls(&server)), (Outcome::Refused, 0));
        let unknown = refusal(harness.engine.call(echo("other__ehco")).await);
        assert_eq!(unknown.message, "there is no tool `other__ehco`; did you mean `other__echo`?");
    }
}

#[tokio::test]
async fn a_name_is_never_handed_on() {
    let (first, second) = (saying("first"), saying("second"));
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", first.clone())]);
    harness.engine.remember_world().await;
    let other = restarted(&harness, ExposedNaming::Bare, &[("evil", second.clone())]).await;
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Bare, &[("evil", second.clone())])).await.unwrap();
    for harness in [&harness, &other] {
        let refused = refusal(harness.engine.call(echo("echo")).await);
        assert!(refused.message.contains("by `up`"), "{}", refused.message);
        assert_eq!((calls(&first), calls(&second)), (0, 0));
    }
    let hashed = harness.engine.catalog().entries().next().unwrap().0.to_owned();
    assert!(hashed.starts_with("echo_"), "{hashed}");
    assert_eq!(told(harness.engine.call(echo(&hashed)).await), "second");
    // And back: each tool gets its own name again, and the other's name is still not free.
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Bare, &[("up", first.clone())])).await.unwrap();
    assert_eq!(told(harness.engine.call(echo("echo")).await), "first");
    assert!(refusal(harness.engine.call(echo(&hashed)).await).message.contains("by `evil`"));
}

/// An operation belongs to its contract, whatever name the call used.
#[tokio::test]
async fn an_effect_is_the_same_under_both_names() {
    let server = saying("done");
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let keys = || OperationKeys { idempotency_key: Some("k".to_owned()), ..OperationKeys::default() };
    for name in ["write", "write", "up__write"] {
        told(harness.engine.call(CallRequest { keys: keys(), ..echo(name) }).await);
        harness.engine.replace_snapshot(snapshot(ExposedNaming::Prefixed, &[("up", server.clone())])).await.unwrap();
    }
    assert_eq!(harness.outcomes(), ["completed", "replayed", "replayed"]);
    assert_eq!(calls(&server), 1);
}

/// A conversation continues although its tool was renamed meanwhile.
#[tokio::test]
async fn a_round_goes_on_under_the_name_it_began_with() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |heard| async move {
        let answered = heard.delivery.continuation.input_responses.is_some();
        let asks = json!({"resultType": "input_required", "requestState": "theirs",
            "inputRequests": {"who": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}}});
        Ok(if answered { text(Era::Modern, "done") } else { said(Era::Modern, &asks) })
    });
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let modern = requester(Era::Modern, &json!({"elicitation": {}}));
    let asked = input(harness.engine.call(call(&modern, "echo", RequestTerms::default())).await);
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Prefixed, &[("up", server.clone())])).await.unwrap();
    let terms = again(&asked["requestState"], &json!({"who": {"action": "accept", "content": {}}}));
    assert_eq!(told(harness.engine.call(call(&modern, "echo", terms)).await), "done");
}

/// A callback for a tool is sent whichever of the tool's names the call used.
#[tokio::test]
async fn callbacks_know_a_tool_by_either_name() {
    let server = saying("done");
    for pattern in ["up__wr*", "write"] {
        let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
        let subscription = CallbackSubscription {
            name: "books".to_owned(),
            on: BTreeSet::from([EffectEnding::Completed]),
            tools: vec![pattern.to_owned()],
        };
        let address = WebhookAddress::parse("https://example.com/hook").unwrap();
        let secret = Some(SigningSecret::parse("123456789012345678901234").unwrap());
        let receiver = WebhookReceiver { address, secret };
        let mut next = snapshot(ExposedNaming::Prefixed, &[("up", server.clone())]);
        next.callbacks = Arc::new(Callbacks::new(vec![Callback { subscription, receiver }], Vec::new()));
        harness.engine.replace_snapshot(next).await.unwrap();
        told(harness.engine.call(echo("write")).await);
        let kept = deliveries(harness.notebook.as_ref(), now()).await.unwrap();
        assert_eq!(kept.len(), 1, "{pattern}");
    }
}

#[test]
fn no_servers_tool_has_a_name_of_the_gateways() {
    for name in [RESULT_TOOL, "servanda__anything", "Servanda__Result", "SERVANDA__x"] {
        let theirs = admit(draft("up", name, false), &RegisteredContracts::new()).unwrap();
        assert!(matches!(Catalog::new([theirs], ExposedNaming::Bare), Err(CatalogError::Reserved { .. })), "{name}");
        let theirs = admit(draft("up", name, false), &RegisteredContracts::new()).unwrap();
        assert!(Catalog::new([theirs], ExposedNaming::Prefixed).is_ok(), "{name}");
    }
}

/// The gateway's own tool never takes a name that belonged to another tool.
#[tokio::test]
async fn the_gateways_own_tool_takes_no_name_that_is_remembered() {
    let server = saying("done");
    let long = || {
        let mut long = draft("up", "write", true);
        long.execution = Some(serde_json::from_value(json!({"timeout_class": "async"})).unwrap());
        long
    };
    let fresh = snapshot_of(&server, vec![long()]);
    let requester = Requester::local();
    assert!(fresh.own_tool(RESULT_TOOL, &requester.caller).is_some());
    // An earlier version may have stored such a name; today no server's tool can have one.
    let policy = NamePolicy::from(ExposedNaming::Bare);
    let mut before = NameTable::new(policy.clone(), 10);
    before.replace_policy_and_tools(policy, [upstream_tool("up", RESULT_TOOL)]);
    let after = fresh.after_names(&before).unwrap();
    assert!(after.own_tool(RESULT_TOOL, &requester.caller).is_none());
    let listed = after.with_own_tools(after.catalog.listing(&requester.capabilities), &requester.caller, true);
    assert_eq!(listed.tools.len(), 1);
}

/// Nor is the tool listed for a caller whose upstreams have no long work.
#[tokio::test]
async fn the_gateways_own_tool_is_there_for_those_who_have_long_work() {
    let server = saying("done");
    let mut long = draft("theirs", "write", true);
    long.execution = Some(serde_json::from_value(json!({"timeout_class": "async"})).unwrap());
    let contracts =
        [long, draft("ours", "write", true)].map(|draft| admit(draft, &RegisteredContracts::new()).unwrap());
    let catalog = Arc::new(Catalog::new(contracts, ExposedNaming::Prefixed).unwrap());
    let tenants = [("theirs".to_owned(), BTreeSet::from(["rival".to_owned()]))].into_iter().collect();
    let authorities = Arc::new(Authorities::with_default_policies(&catalog).unwrap().with_tenants(tenants));
    let servers = ["theirs", "ours"].map(|id| (id.to_owned(), server.clone() as Arc<dyn UpstreamServer>));
    let snapshot =
        WorldSnapshot::with_servers(catalog, servers.into_iter().collect(), ExposedNaming::Prefixed, authorities);
    for (tenant, is_there) in [("rival", true), ("acme", false)] {
        let caller = Caller { tenant: tenant.to_owned(), ..Caller::local() };
        assert_eq!(snapshot.own_tool(RESULT_TOOL, &caller).is_some(), is_there, "{tenant}");
        let listing = snapshot.catalog.listing(&Requester::local().capabilities);
        let listed = snapshot.with_own_tools(listing, &caller, true);
        assert_eq!(listed.tools.iter().any(|tool| tool.name == RESULT_TOOL), is_there, "{tenant}");
    }
}

#[tokio::test]
async fn the_store_remembers_what_every_gateway_told_and_is_not_written_for_nothing() {
    let server = saying("done");
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", server.clone())]);
    let note = async || harness.notebook.read(NoteKind::Names, TOOLS, now()).await.unwrap().map(|note| note.value);
    assert_eq!(note().await, None);
    harness.engine.remember_world().await;
    let first = note().await.unwrap();
    harness.engine.replace_snapshot(snapshot(ExposedNaming::Bare, &[("up", server.clone())])).await.unwrap();
    harness.engine.remember_world().await;
    assert_eq!(note().await.unwrap(), first, "nothing changed but the count of lists");
    // Another gateway on the same store that does not know these names.
    let other =
        EngineHarness::with_notebook(ExposedNaming::Prefixed, &[("else", server.clone())], harness.notebook.clone());
    other.engine.remember_world().await;
    let all = recall(harness.notebook.as_ref(), now()).await.unwrap().unwrap();
    assert!(["echo", "write", "else__echo", "else__write"].iter().all(|name| all.knows(name)));
}

/// A note that a later version wrote, or that is garbage.
#[tokio::test]
async fn a_note_that_is_not_understood_does_not_stop_the_gateway() {
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", saying("done"))]);
    for value in [r#"{"version":9}"#, "[]", "nonsense"] {
        let note = Note { kind: NoteKind::Names, key: TOOLS.to_owned(), value: value.to_owned(), expires_at: None };
        harness.notebook.write(note).await.unwrap();
        assert!(recall(harness.notebook.as_ref(), now()).await.unwrap().is_none(), "{value}");
    }
}
