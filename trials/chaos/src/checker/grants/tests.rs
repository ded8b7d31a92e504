//! The checker finds planted lies about grants: each test begins with a true history, plants one lie, and expects that lie and no other.

use serde_json::{Value, json};

use crate::checker::{Lie, Listings, check};

/// What clients were told, the upstream's file, and what the gateway lists.
#[derive(Debug, Clone)]
struct Recorded {
    history: Vec<Value>,
    books: Vec<Value>,
    effects: Vec<Value>,
    /// The effects that were drawn for.
    draws: Vec<&'static str>,
    draws_at_revocation: Option<Vec<&'static str>>,
}

/// People approved `/g/first`, which was performed, and allowed two calls below `/g/` of at most 7. `/g/a` and `/g/b` were performed, `/g/c`
/// waits.
fn truth() -> Recorded {
    let mut truth = Recorded {
        history: vec![json!({ "kind": "about", "silence_ms": 2_000 })],
        books: vec![json!({ "opened": true, "at_ms": 1 })],
        effects: Vec::new(),
        draws: vec!["eff_a", "eff_b"],
        draws_at_revocation: None,
    };
    truth.perform("first", 10);
    truth.history.push(json!({
        "kind": "grant", "ticket": "apr_1", "folder": "/g/", "first": "/g/first", "payload_max": 7, "uses": 2, "at_ms": 90,
    }));
    truth.perform("a", 100);
    truth.perform("b", 120);
    truth.history.push(held("c", 140));
    truth
}

fn answer(name: &str, began_ms: u64) -> Value {
    json!({
        "kind": "answer", "attempt": format!("try-{name}-{began_ms}"), "gateway": "g0", "key": format!("key-{name}"),
        "business": format!("/g/{name}"), "class": "n", "payload": 7, "began_ms": began_ms, "ended_ms": began_ms + 10,
        "limit_ms": 5_000,
    })
}

fn held(name: &str, began_ms: u64) -> Value {
    let mut told = answer(name, began_ms);
    for (member, value) in [
        ("answer", "refused"),
        ("code", "CONFIRMATION_MISSING"),
        ("gate", "confirmation"),
        ("effect", "none"),
        ("handle", "apr_2"),
    ] {
        told[member] = json!(value);
    }
    told
}

impl Recorded {
    /// A call that is performed, answered and listed.
    fn perform(&mut self, name: &str, began_ms: u64) {
        let mut told = answer(name, began_ms);
        (told["answer"], told["digest"]) = (json!("done"), json!(name));
        let business = format!("/g/{name}");
        self.history.push(told);
        self.books.extend([
            json!({
                "call": business, "n": 0, "at_ms": began_ms + 2, "payload": 7, "gateway": "g0",
                "attempt": format!("try-{name}-{began_ms}"),
            }),
            json!({ "effect": business, "n": 0, "receipt": "r", "at_ms": began_ms + 4, "payload": 7 }),
            json!({ "ended": business, "n": 0, "at_ms": began_ms + 6 }),
        ]);
        self.effects.push(json!({
            "id": format!("eff_{name}"), "state": "completed", "key": { "client_key": format!("key:key-{name}") },
        }));
    }

    fn revoked(mut self, at_ms: u64, listed: &[&'static str]) -> Self {
        self.history.push(json!({ "kind": "revoked", "ticket": "apr_1", "at_ms": at_ms }));
        self.draws_at_revocation = Some(listed.to_vec());
        self
    }

    /// The kinds of lies that the checker finds, each once.
    fn lies(&self) -> Vec<Lie> {
        let drawn = |ids: &[&str]| ids.iter().map(|id| json!({ "effect_id": id })).collect::<Value>();
        let grants = json!([{
            "ticket": "apr_1", "draws": drawn(&self.draws),
            "draws_at_revocation": self.draws_at_revocation.as_deref().map(drawn),
        }]);
        self.lies_beside(Some(&grants.to_string()))
    }

    fn lies_beside(&self, grants: Option<&str>) -> Vec<Lie> {
        let text = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
        let effects = json!(self.effects).to_string();
        let listings = Listings { effects: Some(&effects), grants };
        let verdict = check(&text(&self.history), &[&text(&self.books)], listings).expect("the files can be read");
        let mut lies: Vec<Lie> = verdict.findings.iter().map(|finding| finding.lie).collect();
        lies.sort_unstable();
        lies.dedup();
        lies
    }
}

#[test]
fn a_true_history_passes() {
    assert_eq!(truth().lies(), []);
    assert_eq!(truth().revoked(131, &["eff_a", "eff_b"]).lies(), []);
    assert_eq!(truth().lies_beside(None), []);
}

#[test]
fn one_effect_too_many_is_found() {
    let mut lied = truth();
    lied.perform("d", 160);
    // The gateway hides it: another use is gone.
    lied.draws = vec!["eff_a", "eff_b"];
    assert_eq!(lied.lies(), [Lie::MoreThanGranted, Lie::NotDrawn]);
    assert_eq!(lied.lies_beside(None), [Lie::MoreThanGranted]);
    lied.draws.push("eff_d");
    assert_eq!(lied.lies(), [Lie::MoreThanGranted]);
}

#[test]
fn an_effect_too_many_that_no_client_asked_for_is_found() {
    let mut lied = truth();
    lied.books.push(json!({ "effect": "/g/e", "n": 0, "receipt": "r", "at_ms": 170, "payload": 7 }));
    assert_eq!(lied.lies(), [Lie::MoreThanGranted]);
}

#[test]
fn one_use_too_many_is_found_without_an_effect() {
    let mut lied = truth();
    lied.effects.push(json!({ "id": "eff_c", "state": "dispatching", "client_key": "key-c" }));
    lied.draws.push("eff_c");
    assert_eq!(lied.lies(), [Lie::MoreThanGranted]);
}

#[test]
fn a_call_beyond_the_bounds_is_found() {
    let mut lied = truth();
    for entry in lied.history.iter_mut().chain(&mut lied.books) {
        let is_b = entry["business"] == "/g/b" || entry["call"] == "/g/b" || entry["effect"] == "/g/b";
        if is_b {
            entry["payload"] = json!(8);
        }
    }
    assert_eq!(lied.lies(), [Lie::MoreThanGranted]);
}

#[test]
fn an_effect_without_a_use_is_found() {
    let mut lied = truth();
    lied.draws.pop();
    assert_eq!(lied.lies(), [Lie::NotDrawn]);
}

#[test]
fn two_uses_of_one_effect_are_found() {
    let mut lied = truth();
    lied.draws = vec!["eff_a", "eff_a"];
    assert_eq!(lied.lies(), [Lie::NotDrawn, Lie::DrawDisagrees]);
}

#[test]
fn a_use_for_the_approved_call_is_found() {
    let mut lied = truth();
    lied.draws = vec!["eff_a", "eff_first"];
    assert_eq!(lied.lies(), [Lie::NotDrawn, Lie::DrawDisagrees]);
}

#[test]
fn a_use_after_the_revocation_is_found() {
    // The call had begun before, so that only the listing tells.
    assert_eq!(truth().revoked(125, &["eff_a"]).lies(), [Lie::DrawnAfterRevocation]);
}

#[test]
fn a_call_that_begins_after_the_revocation_is_found() {
    let lied = truth().revoked(119, &["eff_a", "eff_b"]);
    assert_eq!(lied.lies(), [Lie::DrawnAfterRevocation]);
    assert_eq!(lied.lies_beside(None), [Lie::DrawnAfterRevocation]);
}

#[test]
fn a_call_beyond_the_count_that_is_told_unknown_is_found() {
    let mut lied = truth();
    let mut unknown = held("c", 200);
    (unknown["code"], unknown["effect"]) = (json!("UPSTREAM_UNKNOWN"), json!("unknown"));
    lied.history.insert(1, unknown);
    lied.history.push(held("c", 300));
    assert_eq!(lied.lies(), [Lie::NotHeld]);
}

#[test]
fn a_call_beyond_the_count_that_is_refused_at_last_is_found() {
    for (member, value) in [("handle", Value::Null), ("code", json!("DEPENDENCY_UNAVAILABLE"))] {
        let mut lied = truth();
        let mut refused = held("c", 200);
        refused[member] = value;
        lied.history.push(refused);
        assert_eq!(lied.lies(), [Lie::NotHeld]);
    }
}
