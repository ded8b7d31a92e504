//! Calls: ids, the ledger, the wire form.

use proptest::prelude::*;
use serde_json::json;

use super::{call_of, named, pairs, tools};
use crate::{
    IdentityError, LookupKey,
    call::{CallLedger, id_of_payload, invocation_of, restore_namespace, without_synthetic_namespace},
};

proptest! {
    /// The namespace that is removed from a call before its tool runs is restored when the call is stored, so that it asks for
    /// the same tool again.
    #[test]
    fn a_stored_call_asks_for_the_same_tool(identity in tools()) {
        let Some(key) = identity.lookup_key() else { return Ok(()) };
        let call = call_of(&identity, "c");
        let run = without_synthetic_namespace(&identity, &call);
        let stored = restore_namespace(Some(&key), &run);
        prop_assert_eq!(LookupKey::of_call(&stored), Some(key));
        prop_assert_eq!(stored, call);
    }

    /// No id is ever made from a value that is not a text.
    #[test]
    fn numbers_are_no_ids(number in any::<i64>(), id in ".{1,4}") {
        let call = json!({ "type": "function_call", "name": "a", "call_id": number, "id": id });
        prop_assert_eq!(id_of_payload(&call), (number == 0).then_some(id.as_str()));
        prop_assert_eq!(invocation_of(&call).and_then(|(_, id)| id), None);
    }

    #[test]
    fn one_id_is_one_call((one, other) in pairs()) {
        let mut ledger = CallLedger::new(8);
        let (Some(first), Some(second)) = (one.lookup_key(), other.lookup_key()) else { return Ok(()) };
        ledger.observe(&call_of(&one, "c"), Some(&first)).unwrap();
        let again = ledger.observe(&call_of(&other, "c"), Some(&second));
        prop_assert_eq!(again.is_ok(), first == second);
    }
}

#[test]
fn arguments_are_compared_by_what_they_mean() {
    let same = |one: &str, other: &str| {
        let mut ledger = CallLedger::new(8);
        let call =
            |arguments: &str| json!({ "type": "function_call", "name": "a", "call_id": "c", "arguments": arguments });
        ledger.observe(&call(one), None).unwrap();
        ledger.observe(&call(other), None).is_ok()
    };
    for (one, other) in [
        (r#"{"a":1,"b":2}"#, r#" { "b" : 2, "a" : 1 } "#),
        ("oops", "oops"),
        ("[1]", "[ 1 ]"),
        ("-0", "0"),
        ("1.5", "1.50"),
    ] {
        assert!(same(one, other), "{one} and {other}");
    }
    let different = [
        ("1", "1.0"),
        ("[1,2]", "[2,1]"),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":"1"}"#, r#"{"a":1}"#),
        ("oops", "oops "),
        ("123456789012345678901", "123456789012345678902"),
        ("1e400", "1e500"),
        ("0.0", "-0.0"),
    ];
    for (one, other) in different {
        assert!(!same(one, other), "{one} and {other}");
    }
}

/// Text that is nested too deeply for the decoder is compared as text, and does not crash anything.
#[test]
fn deep_arguments_are_compared_as_text() {
    let mut ledger = CallLedger::new(8);
    let deep = "[".repeat(100_000);
    let call = json!({ "type": "function_call", "name": "a", "call_id": "c", "arguments": deep });
    assert!(ledger.observe(&call, None).is_ok() && ledger.observe(&call, None).is_ok());
    let closed = format!("{deep}{}", "]".repeat(100_000));
    let call = json!({ "type": "function_call", "name": "a", "call_id": "c", "arguments": closed });
    assert_eq!(ledger.observe(&call, None), Err(IdentityError::CallIdReused));
}

#[test]
fn a_call_that_cannot_be_compared_does_not_pass_for_a_known_one() {
    let mut ledger = CallLedger::new(8);
    ledger.observe(&call_of(&named("a"), "c"), None).unwrap();
    let silent = json!({ "type": "function_call", "name": "a", "call_id": "c" });
    assert_eq!(ledger.observe(&silent, None), Err(IdentityError::CallIdReused));
    let elsewhere = json!({ "type": "function_call", "name": "a", "call_id": "d" });
    assert_eq!(ledger.observe(&elsewhere, None), Ok(None));
}

#[test]
fn a_full_ledger_refuses_instead_of_forgetting() {
    let mut ledger = CallLedger::new(1);
    ledger.observe(&call_of(&named("a"), "c"), None).unwrap();
    assert!(matches!(ledger.observe(&call_of(&named("a"), "d"), None), Err(IdentityError::Full { .. })));
    assert!(ledger.observe(&call_of(&named("a"), "c"), None).is_ok(), "what is known still is");
}

#[test]
fn an_output_of_another_kind_completes_nothing() {
    let mut ledger = CallLedger::new(8);
    let call = call_of(&named("a"), "c");
    ledger.observe(&call, None).unwrap();
    ledger.mark_output(&json!({ "type": "shell_call_output", "call_id": "c" }));
    assert!(!ledger.observe(&call, None).unwrap().unwrap().completed);
    ledger.mark_output(&json!({ "type": "function_call_output", "call_id": "c" }));
    assert!(ledger.observe(&call, None).unwrap().unwrap().completed);
}
