//! An upstream for one tenant beside one for all: for the other tenant it does not exist, in any list, by any known name, or in any
//! notification.

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    http::Exchange,
    tenants::{Side, Tenancy, told},
};

/// A kind of item: how to request it by name, an existing name, and a name that does not exist.
type Named<'a> = (&'static str, &'a dyn Fn(&str) -> Value, &'static str, &'static str);

const OURS: &str = "servanda://vault/book://vault";
const EVERYBODYS: &str = "servanda://company/book://company";

/// A reply in each era.
fn both(side: &Side, method: &'static str, params: &Value) -> [Reply; 2] {
    [side.ask(method, params.clone()), side.legacy.ask(method, params.clone())]
}

#[test]
fn an_upstream_of_one_tenant_is_not_there_for_another() {
    let tenancy = Tenancy::begin();
    let (ours, theirs) = (&tenancy.ours, &tenancy.theirs);
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        for (shown, hidden) in both(ours, method, &json!({})).iter().zip(&both(theirs, method, &json!({}))) {
            assert!(shown.raw.contains("vault") && shown.raw.contains("company"), "{method}: {}", shown.raw);
            assert!(!hidden.raw.contains("vault") && hidden.raw.contains("company"), "{method}: {}", hidden.raw);
        }
    }
    // By name: a request with an existing name, and one with a name that does not exist.
    let reference = |kind: &str, member: &str, name: &str| json!({ "ref": { "type": kind, member: name }, "argument": { "name": "page", "value": "1" } });
    let table: [Named<'_>; 6] = [
        ("tools/call", &|name| json!({ "name": name, "arguments": {} }), "vault__note", "cellar__note"),
        ("resources/read", &|uri| json!({ "uri": uri }), OURS, "servanda://cellar/book://vault"),
        ("resources/subscribe", &|uri| json!({ "uri": uri }), OURS, "servanda://cellar/book://vault"),
        ("prompts/get", &|name| json!({ "name": name }), "vault__greet", "cellar__greet"),
        ("completion/complete", &|name| reference("ref/prompt", "name", name), "vault__greet", "cellar__greet"),
        (
            "completion/complete",
            &|uri| reference("ref/resource", "uri", uri),
            "servanda://vault/book://vault/{page}",
            "servanda://cellar/book://vault/{page}",
        ),
    ];
    for (method, params, there, absent) in table {
        let is_legacy_only = method == "resources/subscribe";
        let ask = |side: &Side, name: &str| {
            let [modern, legacy] = both(side, method, &params(name));
            if is_legacy_only { vec![legacy] } else { vec![modern, legacy] }
        };
        for owner in ask(ours, there) {
            assert_ne!(owner.result()["isError"], true, "{method}: {}", owner.raw);
        }
        for (hidden, unknown) in ask(theirs, there).iter().zip(&ask(theirs, absent)) {
            assert_eq!(told(hidden, there), told(unknown, absent), "{method}");
        }
    }
    let mistyped = |side: &Side| both(side, "tools/call", &json!({ "name": "vault__noet", "arguments": {} }));
    assert!(mistyped(ours).iter().all(|reply| reply.raw.contains("did you mean `vault__note`")));
    assert!(mistyped(theirs).iter().all(|reply| !reply.raw.contains("vault__note")));
}

/// Listeners for every notification of both upstreams, in each era.
fn listeners(side: &Side) -> Vec<Exchange> {
    let session = side.legacy.clone();
    let _ = session.ask("resources/subscribe", json!({ "uri": OURS }));
    session.ask("resources/subscribe", json!({ "uri": EVERYBODYS })).result();
    session.ask("logging/setLevel", json!({ "level": "debug" })).result();
    let lists = json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": [OURS, EVERYBODYS] });
    let mut modern = side.listen(&lists);
    assert!(modern.next_event().unwrap().contains("acknowledged"));
    vec![session.listen(), modern]
}

/// The events until one from the upstream for all comes.
fn until_everybodys(stream: &mut Exchange) -> Vec<String> {
    let events = std::iter::from_fn(|| stream.next_event());
    events.take_while(|event| !(event.contains("resources/updated") && event.contains(EVERYBODYS))).collect()
}

#[test]
fn what_it_announces_is_not_heard_by_another() {
    let tenancy = Tenancy::begin();
    let announce = |agent: &Agent, tool: &str, text: &str| {
        agent.call(tool, json!({ "text": text }));
    };
    // Both upstreams are connected and known, so that only announced changes are news.
    for tool in ["vault__note", "company__note"] {
        tenancy.ours.modern.call(tool, json!({ "text": "first" })).success();
    }
    assert_eq!(tenancy.ours.modern.tools().iter().filter(|name| name.starts_with("vault")).count(), 2);
    let (ours, theirs) = (listeners(&tenancy.ours), listeners(&tenancy.theirs));
    announce(&tenancy.ours.modern, "vault__announce", "all");
    for mut stream in ours {
        let mut awaited = vec!["tools/list_changed", "prompts/list_changed", "resources/list_changed", OURS];
        while !awaited.is_empty() {
            let event = stream.next_event().expect("more is announced");
            awaited.retain(|what| !event.contains(what));
        }
    }
    announce(&tenancy.theirs.modern, "company__announce", "updated");
    for mut stream in theirs {
        assert_eq!(until_everybodys(&mut stream), Vec::<String>::new());
    }
}
