//! What is stored about an effect so that it can be sent again tomorrow.

use serde_json::{Value, json};
use servanda_contract::CallId;

use super::{admitted, booking, passed};
use crate::dispatch_order::dispatch_order;
use servanda_effects::effect::{ClientKey, DispatchOrder};

const HOUR_MS: u64 = 3_600_000;

fn ordered(changes: &[(&str, Value)], key: ClientKey) -> DispatchOrder {
    let permit = passed(&admitted(changes), &booking(&json!({})));
    dispatch_order(&permit, &permit.effect_key(key), 5_000, false).unwrap()
}

fn given(key: &str) -> ClientKey {
    ClientKey::Given(key.to_owned())
}

fn manifest() -> Value {
    json!([
        { "resource": "room/{room}/{note}", "operation": "UPDATE", "scope": "tenant" },
        { "resource": "calendar", "operation": "CREATE", "scope": "tenant" },
    ])
}

#[test]
fn resources_are_named_by_the_arguments() {
    let order = ordered(&[("/effect/manifest", manifest())], given("k"));
    assert_eq!(order.resources, ["room/room_1/*", "calendar"]);
}

#[test]
fn the_upstream_key_belongs_to_one_effect_only() {
    let one = ordered(&[], given("k")).upstream_key;
    assert_eq!(one, ordered(&[], given("k")).upstream_key);
    assert_eq!(one.len(), 64);
    for other in [given("k2"), ClientKey::Call(CallId::from("k".to_owned()))] {
        assert_ne!(one, ordered(&[], other).upstream_key);
    }
}

#[test]
fn a_key_among_the_arguments_leaves_them_canonical() {
    let keyed = json!({ "class": "K", "mutation_class": "write_irreversible", "key": { "argument": "idem" },
        "key_window_sec": 60, "manifest": manifest() });
    let order = ordered(&[("/effect", keyed)], given("k"));
    let plain = std::str::from_utf8(&order.arguments).unwrap().to_owned();
    let expected = format!(r#""idem":"{}","priority""#, order.upstream_key);
    assert!(plain.contains(&expected), "{plain}");
    assert_eq!(order.key_window_ms, Some(60_000));
}

#[test]
fn effects_are_remembered_as_long_as_the_contract_says_and_an_hour_at_the_least() {
    assert_eq!(ordered(&[], given("k")).dedup_window_ms, HOUR_MS);
    let long = [("/idempotency/ttl_seconds", json!(7_200))];
    assert_eq!(ordered(&long, given("k")).dedup_window_ms, 2 * HOUR_MS);
}

#[test]
fn an_answer_is_kept_if_a_client_can_ask_for_it_again() {
    let call = || ClientKey::Call(CallId::from("call_1".to_owned()));
    assert!(ordered(&[], given("k")).keeps_answer);
    assert!(!ordered(&[], call()).keeps_answer);
    assert!(ordered(&[("/execution/timeout_class", json!("long_running"))], call()).keeps_answer);
}
