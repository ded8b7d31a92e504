//! The checker finds planted lies. Every test begins with a true history and plants one lie in it, either in an answer or in
//! the upstream's file, and the checker finds that lie and no other.

use serde_json::{Value, json};

use super::{Lie, Listings, check};

/// A small recorded history and the upstream's file beside it.
#[derive(Debug, Clone)]
struct Recorded {
    history: Vec<Value>,
    books: Vec<Value>,
}

/// Key `k` of class N was called at 100 ms at gateway `g0`, its effect began at 120 ms, it was told done at 150 ms; asked again
/// at `g1` at 200 ms, it got the same result.
fn truth() -> Recorded {
    Recorded {
        history: vec![
            json!({ "kind": "about", "silence_ms": 2_000 }),
            done("a1", "g0", (100, 150)),
            with(done("a2", "g1", (200, 210)), "replayed", json!(true)),
        ],
        books: vec![
            json!({ "opened": true, "at_ms": 1 }),
            call(0, "a1", "g0", 110),
            effect(0, 120),
            json!({ "ended": "b", "n": 0, "at_ms": 140 }),
        ],
    }
}

fn done(attempt: &str, gateway: &str, (began_ms, ended_ms): (u64, u64)) -> Value {
    json!({
        "kind": "answer", "attempt": attempt, "gateway": gateway, "key": "k", "business": "b", "class": "n", "payload": 7,
        "began_ms": began_ms, "ended_ms": ended_ms, "limit_ms": 5_000, "answer": "done", "digest": "d1", "replayed": false,
    })
}

fn refused(attempt: &str, (began_ms, ended_ms): (u64, u64), code: &str, effect: &str) -> Value {
    let mut told = done(attempt, "g1", (began_ms, ended_ms));
    for (member, value) in [("answer", "refused"), ("code", code), ("effect", effect), ("gate", "fence")] {
        told[member] = json!(value);
    }
    told
}

fn call(number: u64, attempt: &str, gateway: &str, at_ms: u64) -> Value {
    json!({ "call": "b", "n": number, "at_ms": at_ms, "payload": 7, "attempt": attempt, "gateway": gateway })
}

fn effect(number: u64, at_ms: u64) -> Value {
    json!({ "effect": "b", "n": number, "receipt": "r", "at_ms": at_ms, "payload": 7 })
}

fn with(mut event: Value, member: &str, value: Value) -> Value {
    event[member] = value;
    event
}

impl Recorded {
    fn tells(mut self, event: Value) -> Self {
        self.history.push(event);
        self
    }

    fn does(mut self, entry: Value) -> Self {
        self.books.push(entry);
        self
    }

    /// The kinds of lies that the checker finds, each once.
    fn lies(&self) -> Vec<Lie> {
        self.lies_beside(None)
    }

    fn lies_beside(&self, effects: Option<&str>) -> Vec<Lie> {
        let text = |lines: &[Value]| lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
        let verdict = check(&text(&self.history), &[&text(&self.books)], Listings { effects, grants: None })
            .expect("the files can be read");
        let mut lies: Vec<Lie> = verdict.findings.iter().map(|finding| finding.lie).collect();
        lies.sort_unstable();
        lies.dedup();
        lies
    }
}

#[test]
fn a_true_history_passes() {
    assert_eq!(truth().lies(), []);
    let listing = r#"[{ "key": { "client_key": "key:k" }, "state": "completed" }]"#;
    assert_eq!(truth().lies_beside(Some(listing)), []);
}

#[test]
fn a_second_effect_is_found() {
    let lied = truth().does(call(1, "a2", "g1", 205)).does(effect(1, 206));
    assert_eq!(lied.lies(), [Lie::EffectsMoreThanOne]);
}

#[test]
fn done_without_an_effect_is_found() {
    let mut lied = truth();
    lied.books.remove(2);
    assert_eq!(lied.lies(), [Lie::DoneWithoutEffect]);
}

#[test]
fn done_before_its_effect_began_is_found() {
    let mut lied = truth();
    lied.books[2] = effect(0, 151);
    lied.books.remove(3);
    assert_eq!(lied.lies(), [Lie::DoneWithoutEffect]);
}

#[test]
fn an_effect_of_another_payload_is_no_proof_of_done() {
    let mut lied = truth();
    lied.books[1]["payload"] = json!(8);
    lied.books[2]["payload"] = json!(8);
    assert_eq!(lied.lies(), [Lie::DoneWithoutEffect]);
}

#[test]
fn done_and_later_something_else_is_found() {
    let later = (300, 310);
    let others = [
        refused("a3", later, "UNKNOWN_ERROR", "unknown"),
        refused("a3", later, "OBSERVATION_NORMALIZATION_FAIL", "happened"),
        refused("a3", later, "SIGNATURE_MISMATCH", "none"),
        with(refused("a3", later, "IDEMPOTENCY_CONFLICT", "none"), "handle", json!("eff_1")),
        with(refused("a3", later, "IDEMPOTENCY_CONFLICT", "none"), "message", json!("the key expired")),
    ];
    for other in others {
        assert_eq!(truth().tells(other.clone()).lies(), [Lie::DoneThenOther], "{other}");
    }
}

#[test]
fn done_and_later_nothing_that_claims_anything_passes() {
    let nothing = with(done("a3", "g1", (300, 310)), "answer", json!("nothing"));
    let strange = with(done("a3", "g1", (300, 310)), "answer", json!("strange"));
    let unknown_before = refused("a3", (300, 310), "DEPENDENCY_UNAVAILABLE", "unknown_before");
    for told in [nothing, strange, unknown_before] {
        assert_eq!(truth().tells(told.clone()).lies(), [], "{told}");
    }
}

#[test]
fn two_results_of_one_key_are_found() {
    let overlapping = with(done("a3", "g1", (100, 160)), "digest", json!("d2"));
    assert_eq!(truth().tells(overlapping).lies(), [Lie::TwoResults]);
}

#[test]
fn none_after_the_effect_is_found() {
    for code in ["DEPENDENCY_UNAVAILABLE", "IDEMPOTENCY_CONFLICT"] {
        let lied = truth().tells(refused("a3", (300, 310), code, "none"));
        assert_eq!(lied.lies(), [Lie::ClaimsLess], "{code}");
    }
}

#[test]
fn none_about_the_attempt_that_did_it_is_found() {
    let mut lied = truth();
    lied.history.truncate(1);
    let lied = lied.tells(refused("a1", (100, 115), "DEPENDENCY_UNAVAILABLE", "none"));
    assert_eq!(lied.lies(), [Lie::ClaimsLess]);
}

#[test]
fn none_before_a_call_that_the_gateway_makes_later_by_itself_is_found() {
    let mut lied = truth();
    lied.history.truncate(1);
    let lied = lied.tells(refused("a1", (100, 105), "DEPENDENCY_UNAVAILABLE", "none"));
    let mut by_itself = lied.clone();
    by_itself.books[1].as_object_mut().expect("a call").remove("attempt");
    let by_itself = by_itself.does(with(call(0, "x1", "g1", 130), "call", json!("c")));
    assert_eq!(by_itself.lies(), [Lie::ClaimsLess]);
    // Another attempt, which was not told so, may have caused it.
    let other = with(done("a2", "g1", (101, 104)), "answer", json!("nothing"));
    assert_eq!(by_itself.tells(other).lies(), []);
}

#[test]
fn none_of_another_payload_passes() {
    let other = with(refused("a3", (300, 310), "DEPENDENCY_UNAVAILABLE", "none"), "payload", json!(8));
    assert_eq!(truth().tells(other).lies(), []);
}

#[test]
fn none_before_another_attempt_was_sent_passes() {
    let earlier = refused("a0", (90, 130), "DEPENDENCY_UNAVAILABLE", "none");
    assert_eq!(truth().tells(earlier).lies(), []);
}

#[test]
fn happened_before_it_happened_is_found() {
    let early = refused("a3", (100, 115), "OBSERVATION_NORMALIZATION_FAIL", "happened");
    assert_eq!(truth().tells(early).lies(), [Lie::ClaimsMore]);
    let right = refused("a3", (100, 125), "OBSERVATION_NORMALIZATION_FAIL", "happened");
    assert_eq!(truth().tells(right).lies(), []);
}

#[test]
fn unknown_of_a_live_call_is_found() {
    let lied = truth().tells(refused("a3", (120, 130), "UNKNOWN_ERROR", "unknown"));
    assert_eq!(lied.lies(), [Lie::FalseUnknown]);
}

#[test]
fn unknown_while_its_gateway_was_silent_too_long_passes() {
    let silent = |what: &str, at_ms: u64| json!({ "kind": "gateway", "gateway": "g0", "what": what, "at_ms": at_ms });
    let mut slow = truth();
    slow.history[1] = done("a1", "g0", (100, 4_000));
    slow.history.remove(2);
    let unknown = refused("a3", (3_000, 3_010), "UNKNOWN_ERROR", "unknown");
    let slow = slow.tells(unknown);
    assert_eq!(slow.lies(), [Lie::FalseUnknown]);
    let short = slow.clone().tells(silent("paused", 500)).tells(silent("resumed", 1_600));
    assert_eq!(short.lies(), [Lie::FalseUnknown]);
    let long = slow.clone().tells(silent("paused", 500)).tells(silent("resumed", 2_900));
    assert_eq!(long.lies(), []);
    let stalls = with(silent("started", 1), "stall_ms", json!(3_500));
    assert_eq!(slow.tells(stalls).lies(), []);
}

#[test]
fn unknown_of_its_own_dispatch_passes() {
    // It sent something itself and got no answer in time; that is its own unknown, not one about the live call.
    let own = refused("a3", (120, 130), "TIMEOUT", "unknown");
    let sent = truth().tells(own).does(call(1, "a3", "g1", 121));
    assert_eq!(sent.lies(), []);
}

/// Two calls of one account, the second of which arrives while the first is still there.
fn two_at_once() -> Recorded {
    let account = json!("acc");
    let mut recorded = truth();
    recorded.books[1] = with(call(0, "a1", "g0", 110), "account", account.clone());
    let second = with(with(call(0, "x1", "g1", 130), "call", json!("c")), "account", account);
    recorded.books.insert(3, second);
    recorded.does(json!({ "ended": "c", "n": 0, "at_ms": 150 }))
}

#[test]
fn two_at_once_on_an_account_are_found() {
    assert_eq!(two_at_once().lies(), [Lie::Overlap]);
    let mut after = two_at_once();
    after.books[3]["at_ms"] = json!(140);
    assert_eq!(after.lies(), []);
}

#[test]
fn two_at_once_pass_where_the_first_gateway_died_or_gave_up() {
    let killed = json!({ "kind": "gateway", "gateway": "g0", "what": "killed", "since_ms": 115, "at_ms": 118 });
    assert_eq!(two_at_once().tells(killed).lies(), []);
    let before = json!({ "kind": "gateway", "gateway": "g0", "what": "killed", "since_ms": 50, "at_ms": 60 });
    assert_eq!(two_at_once().tells(before).lies(), [Lie::Overlap]);
    // The limit counts from when the attempt began, at 100 ms.
    let mut over = two_at_once();
    for told in &mut over.history[1..=2] {
        told["limit_ms"] = json!(20);
    }
    assert_eq!(over.lies(), []);
    let mut answered = two_at_once();
    answered.history.truncate(1);
    let unknown = refused("a1", (100, 125), "TIMEOUT", "unknown");
    assert_eq!(answered.clone().tells(unknown).lies(), []);
    let later = refused("a1", (100, 135), "TIMEOUT", "unknown");
    assert_eq!(answered.tells(later).lies(), [Lie::Overlap]);
    let mut again = two_at_once();
    again.books[3]["attempt"] = json!("a1");
    assert_eq!(again.lies(), []);
}

#[test]
fn a_file_that_names_no_attempts_is_not_judged_in_silence() {
    let mut nameless = truth();
    nameless.books[1].as_object_mut().expect("a call").remove("attempt");
    assert_eq!(nameless.lies(), [Lie::NotTold]);
}

#[test]
fn calls_end_with_the_upstream_that_had_them() {
    let mut restarted = two_at_once();
    restarted.books.retain(|entry| entry["ended"].is_null());
    restarted.books.insert(3, json!({ "opened": true, "at_ms": 125 }));
    assert_eq!(restarted.lies(), []);
}

#[test]
fn a_listing_that_disagrees_is_found() {
    let listing = |state: &str| json!([{ "key": { "client_key": "key:k" }, "state": state }]).to_string();
    assert_eq!(truth().lies_beside(Some(&listing("outcome_unknown"))), [Lie::DoneAndListedOtherwise]);
    let both = [Lie::DoneAndListedOtherwise, Lie::ListingDisagrees];
    assert_eq!(truth().lies_beside(Some("[]")), both);
    assert_eq!(truth().lies_beside(Some(&listing("failed_retryable"))), both);
}

#[test]
fn files_that_are_no_history_are_refused() {
    assert!(check("{}\n", &[""], Listings::default()).is_err());
    assert!(check("no JSON\n", &[""], Listings::default()).is_err());
    assert!(check("", &["no JSON\n"], Listings::default()).is_err());
    assert!(check("", &[""], Listings { effects: Some("{}"), grants: None }).is_err());
    for grants in ["{}", "[{}]", r#"[{ "ticket": "apr_1" }]"#] {
        assert!(check("", &[""], Listings { effects: None, grants: Some(grants) }).is_err(), "{grants}");
    }
}
