//! What a client says about its operation: accepted, consistent, limited, and never sent on.

use serde_json::{Value, json};
use servanda_contract::{GateName, OperationKeys, Proposal, Refusal, TaxonomyClass};

use super::{admitted, booking, proposal, propose};
use crate::{KEY_CHARS_MAX, OPERATION_ARGUMENT, Operation, OperationIdentity, Permit};

const READ_ONLY: [(&str, &str); 3] = [
    ("/effect", r#"{ "class": "R", "mutation_class": "read_only" }"#),
    ("/transactional/side_effect_class", r#""READ_ONLY""#),
    ("/transactional/semantics", r#""read_only""#),
];

#[expect(clippy::unnecessary_wraps, reason = "a client may leave it out")]
fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A place where a client can say something.
type Place = (fn(&mut OperationKeys, &str), &'static str);

fn saying(keys: OperationKeys, arguments: &Value) -> Proposal {
    Proposal { keys, ..proposal(arguments.to_string()) }
}

fn judged(changes: &[(&str, Value)], keys: OperationKeys, arguments: &Value) -> Result<Permit, Box<Refusal>> {
    propose(&admitted(changes), saying(keys, arguments)).0
}

fn operation(keys: OperationKeys, arguments: &Value) -> Operation {
    judged(&[], keys, arguments).unwrap().operation().clone()
}

#[test]
fn a_key_wins_over_an_operation_and_that_over_a_step() {
    let all = OperationKeys {
        idempotency_key: text("k"),
        header_key: text("k"),
        operation_id: text("o"),
        step_id: text("s"),
        workflow_id: text("w"),
        run_id: text("r"),
    };
    let named = |id: &str| {
        Some(OperationIdentity::Operation { id: id.to_owned(), workflow: "w".to_owned(), run: "r".to_owned() })
    };
    let keyless = OperationKeys { idempotency_key: None, header_key: None, ..all.clone() };
    let step = OperationKeys { operation_id: None, ..keyless.clone() };
    let workflow_only = OperationKeys { step_id: None, ..step.clone() };
    let table = [
        (all.clone(), Some(OperationIdentity::Key("k".to_owned()))),
        (OperationKeys { idempotency_key: None, ..all.clone() }, Some(OperationIdentity::Key("k".to_owned()))),
        (keyless, named("o")),
        (step, Some(OperationIdentity::Step("s".to_owned()))),
        (workflow_only, None),
        (OperationKeys::default(), None),
    ];
    for (keys, said) in table {
        assert_eq!(operation(keys.clone(), &booking(&json!({}))).identity(), said.as_ref(), "{keys:?}");
    }
    assert_eq!(operation(all, &booking(&json!({}))).operation_id(), Some("o"), "it is still passed on");
}

#[test]
fn the_argument_names_the_operation_and_is_gone_before_anything_is_judged_or_hashed() {
    let plain = judged(&[], OperationKeys::default(), &booking(&json!({}))).unwrap();
    let named = judged(&[], OperationKeys::default(), &booking(&json!({ OPERATION_ARGUMENT: "op-1" }))).unwrap();
    assert_eq!(named.operation().operation_id(), Some("op-1"));
    assert_eq!(named.arguments().bytes(), plain.arguments().bytes());
    assert_eq!(named.payload_digest(), plain.payload_digest());
    let both = OperationKeys { operation_id: text("op-1"), ..OperationKeys::default() };
    let agreed = operation(both, &booking(&json!({ OPERATION_ARGUMENT: "op-1" })));
    assert_eq!(agreed.operation_id(), Some("op-1"));
}

#[test]
fn an_argument_of_the_tools_own_is_left_alone() {
    let mut schema = json!(super::contract(&[]).affordance.input_schema);
    schema["properties"][OPERATION_ARGUMENT] = json!({ "type": "string" });
    let arguments = booking(&json!({ OPERATION_ARGUMENT: "theirs" }));
    let permit = judged(&[("/affordance/input_schema", schema)], OperationKeys::default(), &arguments).unwrap();
    assert_eq!(permit.operation(), &Operation::default());
    assert!(std::str::from_utf8(permit.arguments().bytes()).unwrap().contains("theirs"));
}

#[test]
fn a_tool_that_only_reads_takes_no_such_argument() {
    let changes = READ_ONLY.map(|(pointer, value)| (pointer, serde_json::from_str(value).unwrap()));
    let refused = judged(&changes, OperationKeys::default(), &booking(&json!({ OPERATION_ARGUMENT: "op-1" })));
    assert_eq!(refused.unwrap_err().error_code, TaxonomyClass::StructuralViolation);
}

#[test]
fn what_disagrees_or_cannot_be_a_key_is_refused_and_never_repeated() {
    let said = |change: fn(&mut OperationKeys, &str), text: &str| {
        let mut keys = OperationKeys::default();
        change(&mut keys, text);
        keys
    };
    let two_keys =
        OperationKeys { idempotency_key: text("s3cret-a"), header_key: text("s3cret-b"), ..Default::default() };
    let mut rows = vec![(two_keys, json!({}), "the header Idempotency-Key")];
    let two_operations = OperationKeys { operation_id: text("s3cret-a"), ..OperationKeys::default() };
    rows.push((two_operations, json!({ OPERATION_ARGUMENT: "s3cret-b" }), OPERATION_ARGUMENT));
    rows.push((OperationKeys::default(), json!({ OPERATION_ARGUMENT: 7 }), OPERATION_ARGUMENT));
    let places: [Place; 6] = [
        (|keys, text| keys.idempotency_key = Some(text.to_owned()), "idempotency-key"),
        (|keys, text| keys.header_key = Some(text.to_owned()), "Idempotency-Key"),
        (|keys, text| keys.operation_id = Some(text.to_owned()), "operation-id"),
        (|keys, text| keys.step_id = Some(text.to_owned()), "step-id"),
        (|keys, text| keys.workflow_id = Some(text.to_owned()), "workflow-id"),
        (|keys, text| keys.run_id = Some(text.to_owned()), "run-id"),
    ];
    let long = "x".repeat(KEY_CHARS_MAX + 1);
    for (change, field) in places {
        for bad in ["", "s3cret\0", "s3cret\n", " s3cret", "s3\u{200b}cret", &long] {
            rows.push((said(change, bad), json!({}), field));
        }
        let longest = "ü".repeat(KEY_CHARS_MAX);
        assert!(judged(&[], said(change, &longest), &booking(&json!({}))).is_ok(), "{field}");
    }
    for (keys, arguments, field) in rows {
        let refusal = judged(&[], keys.clone(), &booking(&arguments)).unwrap_err();
        assert_eq!((refusal.gate, refusal.error_code), (GateName::Structure, TaxonomyClass::StructuralViolation));
        assert!(refusal.field_errors[0].field.contains(field), "{keys:?}: {:?}", refusal.field_errors);
        assert!(!serde_json::to_string(&refusal).unwrap().contains("s3"), "{refusal:?}");
    }
}

#[test]
fn a_contract_may_insist_on_a_key() {
    let insists = [
        ("/idempotency/required", json!(true)),
        ("/idempotency/supported", json!(true)),
        ("/idempotency/ttl_seconds", json!(60)),
    ];
    let refusal = judged(&insists, OperationKeys::default(), &booking(&json!({}))).unwrap_err();
    assert_eq!(refusal.error_code, TaxonomyClass::StructuralViolation);
    for way in ["servanda/idempotency-key", "Idempotency-Key", "servanda/operation-id", OPERATION_ARGUMENT] {
        assert!(refusal.hint.contains(way), "{}", refusal.hint);
    }
    assert!(judged(&insists, OperationKeys::default(), &booking(&json!({ OPERATION_ARGUMENT: "op-1" }))).is_ok());
}
