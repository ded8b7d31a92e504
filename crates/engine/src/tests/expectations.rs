//! What is expected of a call's tool, end to end: which expectations apply, what is refused, and which tools are suggested instead.

use std::sync::Arc;

use serde_json::{Value, json};
use servanda_catalog::names::ExposedNaming;
use servanda_contract::{
    GateName, Refusal,
    expectation::{Aims, BehaviourPattern, ExpectationRule},
    refusal::EffectKnowledge,
};
use servanda_mcp::Era;

use super::{conversations::result, effects::refusal};
use crate::{
    CallAnswer, CallRequest, Gateway as _, RequestTerms, Requester, SystemClock,
    testing::{EngineHarness, ScriptedServer, call, draft, snapshot, snapshot_of, text},
};

fn patterns(written: Value) -> Vec<BehaviourPattern> {
    serde_json::from_value(written).unwrap()
}

fn server() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "done")) })
}

/// Two servers with `echo` (PURE|READ|DATA) and `write` each, the task `triage`, and these rules.
fn harness(rules: Vec<ExpectationRule>) -> (EngineHarness, Arc<ScriptedServer>) {
    let server = server();
    let mut snapshot = snapshot(ExposedNaming::Prefixed, &[("one", server.clone()), ("two", server.clone())]);
    snapshot.expectations.tasks.insert("triage".to_owned(), patterns(json!([{ "mutability": "PURE" }])));
    snapshot.expectations.rules = rules;
    (EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock)), server)
}

fn rule(clients: &[&str], upstreams: &[&str], without_task: bool) -> ExpectationRule {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ExpectationRule {
        name: "only reads".to_owned(),
        clients: owned(clients),
        upstreams: owned(upstreams),
        without_task,
        allowed: patterns(json!([{ "mutability": "PURE" }])),
    }
}

fn aims(task: Option<&str>, intent: Option<&str>, like: Option<&str>) -> Aims {
    let owned = |said: Option<&str>| said.map(str::to_owned);
    Aims { task: owned(task), intent: owned(intent), like: owned(like) }
}

fn wanting(requester: &Requester, tool: &str, aims: Aims) -> CallRequest {
    CallRequest { aims, ..call(requester, tool, RequestTerms::default()) }
}

/// The refusal of the behaviour gate; none if the call passed.
fn refused(answer: CallAnswer) -> Option<Refusal> {
    let CallAnswer::Result(answered) = &answer else { panic!("not a result: {answer:?}") };
    if !answered.json.contains(r#""isError":true"#) {
        return None;
    }
    let refusal = refusal(answer);
    assert_eq!((refusal.gate, refusal.effect), (GateName::Behaviour, EffectKnowledge::None));
    Some(refusal)
}

#[tokio::test]
async fn a_task_takes_its_kinds_of_tools_and_no_others() {
    let (harness, server) = harness(Vec::new());
    let requester = Requester::local();
    let triage = || aims(Some("triage"), None, None);
    assert!(refused(harness.engine.call(wanting(&requester, "one__echo", triage())).await).is_none());
    let said = refused(harness.engine.call(wanting(&requester, "two__write", triage())).await).unwrap();
    assert!(said.message.starts_with("`two__write` is MUTATES|"), "{}", said.message);
    assert!(said.message.ends_with("the task `triage` expects PURE|*|*"), "{}", said.message);
    assert!(said.hint.ends_with("tools of that kind: `two__echo`, `one__echo`"), "its own server first: {}", said.hint);
    let unknown =
        refused(harness.engine.call(wanting(&requester, "one__echo", aims(Some("tirage"), None, None))).await).unwrap();
    assert!(unknown.message.contains("not declared") && !unknown.message.contains("tirage"), "{}", unknown.message);
    assert_eq!(unknown.hint, "name one that is declared, such as `triage`, or leave it out");
    assert_eq!(server.heard().len(), 1, "nothing that was refused was sent");
}

#[tokio::test]
async fn an_intent_is_held_to() {
    let (harness, _) = harness(Vec::new());
    let requester = Requester::local();
    let rows = [
        ("one__echo", "read", true),
        ("one__write", "read", false),
        ("one__echo", "write", false),
        ("one__echo", "destructive", false),
        ("one__echo", "reading", false),
    ];
    for (tool, intent, passes) in rows {
        let said = refused(harness.engine.call(wanting(&requester, tool, aims(None, Some(intent), None))).await);
        assert_eq!(said.is_none(), passes, "{tool} {intent}: {said:?}");
    }
    // Both apply: a task does not override an intent. This uses a new gateway, where no caller has been told to stop.
    let (harness, _) = self::harness(Vec::new());
    let both = wanting(&requester, "one__echo", aims(Some("triage"), Some("write"), None));
    let said = refused(harness.engine.call(both).await).unwrap();
    assert!(said.message.contains("the stated intent `write`"), "{}", said.message);
    assert!(said.hint.ends_with("no tool of that kind is available"), "{}", said.hint);
}

#[tokio::test]
async fn a_rule_concerns_the_clients_and_servers_it_names() {
    let by = |client: &str| {
        let mut requester = Requester::local();
        Arc::make_mut(&mut requester.caller).client = Some(client.to_owned());
        requester
    };
    let task = || aims(Some("anything"), None, None);
    let rows = [
        (rule(&[], &[], false), "agent 1.0", "one__write", Aims::default(), false),
        (rule(&[], &[], false), "agent 1.0", "one__echo", Aims::default(), true),
        (rule(&["agent"], &[], false), "agent 1.0", "one__write", Aims::default(), false),
        (rule(&["agent 1.0"], &[], false), "agent 1.0", "one__write", Aims::default(), false),
        (rule(&["agent"], &[], false), "agents 1.0", "one__write", Aims::default(), true),
        (rule(&[], &["two"], false), "agent 1.0", "one__write", Aims::default(), true),
        (rule(&[], &["two"], false), "agent 1.0", "two__write", Aims::default(), false),
        (rule(&[], &[], true), "agent 1.0", "one__write", Aims::default(), false),
        (rule(&[], &[], true), "agent 1.0", "one__write", task(), true),
    ];
    for (rule, client, tool, aims, passes) in rows {
        let what = format!("{rule:?} {client} {tool}");
        let server = server();
        let mut snapshot = snapshot(ExposedNaming::Prefixed, &[("one", server.clone()), ("two", server)]);
        snapshot.expectations.tasks.insert("anything".to_owned(), patterns(json!([{}])));
        snapshot.expectations.rules = vec![rule];
        let harness = EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock));
        let said = refused(harness.engine.call(wanting(&by(client), tool, aims)).await);
        assert_eq!(said.is_none(), passes, "{what}: {said:?}");
        assert!(said.is_none_or(|said| said.message.contains("the rule `only reads` expects")), "{what}");
    }
}

#[tokio::test]
async fn an_earlier_call_is_an_example_only_to_its_own_caller() {
    let (harness, _) = harness(Vec::new());
    let (requester, mut stranger) = (Requester::local(), Requester::local());
    Arc::make_mut(&mut stranger.caller).principal = "somebody else".to_owned();
    let first = result(harness.engine.call(call(&requester, "one__echo", RequestTerms::default())).await);
    let id = first["_meta"]["servanda/observation"]["tool_identity"]["call_id"].as_str().unwrap();
    let like = |id: &str| aims(None, None, Some(id));
    assert!(refused(harness.engine.call(wanting(&requester, "two__echo", like(id))).await).is_none());
    let said = refused(harness.engine.call(wanting(&requester, "one__write", like(id))).await).unwrap();
    assert!(said.message.contains(&format!("the earlier call `{id}` expects PURE|READ|DATA")), "{}", said.message);
    let refused_call = said.call_id.to_string();
    for (requester, id) in [(&stranger, id), (&requester, "call_0"), (&requester, refused_call.as_str())] {
        let said = refused(harness.engine.call(wanting(requester, "two__echo", like(id))).await).unwrap();
        assert!(said.message.contains("is not known, or was not completed"), "{id}: {}", said.message);
        assert!(!said.hint.contains("of that kind"), "{}", said.hint);
    }
}

/// Tools that take the same arguments come first, because an agent can use them without planning again.
#[tokio::test]
async fn tools_that_take_the_same_arguments_are_named_first() {
    let server = server();
    let mut other = draft("up", "another", false);
    let nothing = json!({ "type": "object", "properties": {} });
    other.affordance.input_schema = nothing.as_object().unwrap().clone().into();
    other.affordance.examples.clear();
    let mut snapshot = snapshot_of(&server, vec![other, draft("up", "reader", false), draft("up", "write", true)]);
    snapshot.expectations.tasks.insert("triage".to_owned(), patterns(json!([{ "mutability": "PURE" }])));
    let harness = EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock));
    let said =
        refused(harness.engine.call(wanting(&Requester::local(), "write", aims(Some("triage"), None, None))).await);
    assert!(said.unwrap().hint.ends_with("tools of that kind: `reader`, `another`"));
}

/// The tool is of the right kind, but the command in its arguments is not, and no other tool of that kind would run it.
#[tokio::test]
async fn a_program_that_is_refused_names_no_tools_of_the_same_kind() {
    let server = server();
    let mut reading = draft("up", "echo", false);
    let schema = json!({ "type": "object", "required": ["text"], "properties": { "text": { "type": "string", "x-effect": "shell" } } });
    reading.affordance.input_schema = schema.as_object().unwrap().clone().into();
    let mut snapshot = snapshot_of(&server, vec![reading]);
    snapshot.expectations.tasks.insert("triage".to_owned(), patterns(json!([{ "mutability": "PURE" }])));
    let harness = EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock));
    let said =
        refused(harness.engine.call(wanting(&Requester::local(), "echo", aims(Some("triage"), None, None))).await)
            .unwrap();
    assert_eq!(said.field_errors[0].pointer, "/text", "`hello` is an unknown command");
    assert!(!said.hint.contains("of that kind"), "{}", said.hint);
    assert_eq!(server.heard().len(), 0);
}

/// A host name is also judged by its addresses: the contract names one host of this machine, and no other inside host is allowed.
#[tokio::test]
async fn t20_a_url_is_judged_by_what_its_name_resolves_to() {
    for (hosts, url, passes) in [
        (json!(["localhost"]), "https://localhost:9/", true),
        (json!(["127.0.0.1"]), "https://127.0.0.1:9/", true),
        // A reserved name: it never has an address.
        (json!(["nowhere.invalid"]), "https://nowhere.invalid/", false),
        (json!([]), "https://nowhere.invalid/", false),
        (json!([]), "https://127.0.0.1/", false),
    ] {
        let server = server();
        let mut reading = draft("up", "echo", false);
        let schema = json!({ "type": "object", "properties": {
            "text": { "type": "string", "x-effect": { "kind": "url", "hosts": hosts } } } });
        reading.affordance.input_schema = schema.as_object().unwrap().clone().into();
        reading.affordance.examples.clear();
        let harness =
            EngineHarness::in_snapshot(snapshot_of(&server, vec![reading]), Arc::default(), Arc::new(SystemClock));
        let mut request = call(&Requester::local(), "echo", RequestTerms::default());
        request.arguments = json!({ "text": url }).to_string().into();
        let said = refused(harness.engine.call(request).await);
        assert_eq!((said.is_none(), server.heard().len()), (passes, usize::from(passes)), "{url}: {said:?}");
        if let Some(refusal) = said {
            assert_eq!((refusal.gate, refusal.field_errors[0].pointer.as_str()), (GateName::Behaviour, "/text"));
            assert!(!refusal.message.contains("nowhere"), "a refusal never carries a value: {}", refusal.message);
        }
    }
}
