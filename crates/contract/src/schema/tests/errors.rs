//! Every kind of error belongs to one gate and is described by name, type and measure, never by the value.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{compiled, told};
use crate::schema::{CompiledSchema, SchemaProfile};

/// Judges `{"a": value}` by a schema whose property `a` is `schema`.
fn judged(schema: &Value, value: &Value) -> Vec<String> {
    let whole = json!({ "type": "object", "properties": { "a": schema },
        "$defs": { "point": { "type": "object", "required": ["x"], "properties": { "x": { "type": "integer" } } } } });
    told(compiled(whole).judge(&json!({ "a": value })))
}

/// One row per kind: the schema of `/a`, a value that it refuses, and the error.
fn kinds() -> Vec<(Value, Value, &'static str)> {
    vec![
        // Structure
        (json!({ "required": ["b"] }), json!({}), "structure /a/b: a value (required) / missing"),
        (json!({ "properties": { "b": {} } }), json!({ "c": 1 }), "structure /a/c: only b / an unknown field"),
        (
            json!({ "allOf": [{ "properties": { "b": {} } }] }),
            json!({ "c": 1 }),
            "structure /a/c: only b / an unknown field",
        ),
        (
            json!({ "anyOf": [{ "minimum": 5 }, { "maximum": 1 }] }),
            json!(3),
            "bounds /a: one of 2 alternatives: a number <= 1 / another number",
        ),
        (
            json!({ "oneOf": [{ "type": "integer" }, { "minimum": 0 }] }),
            json!(3),
            "structure /a: exactly one alternative / a value that fits more than one",
        ),
        (
            json!({ "prefixItems": [{}], "unevaluatedItems": false }),
            json!([1, 2]),
            "structure /a: no further items / 2 items",
        ),
        (json!({ "prefixItems": [{}], "items": false }), json!([1, 2]), "structure /a/1: nothing here / integer"),
        (json!(false), json!(1), "structure /a: nothing here / integer"),
        (
            json!({ "propertyNames": { "pattern": "^x" } }),
            json!({ "y": 1 }),
            "structure /a: field names that are text matching `^x` / another name",
        ),
        // Types
        (json!({ "type": "string" }), json!(1), "types /a: string / integer"),
        (json!({ "type": ["string", "null"] }), json!([]), "types /a: null or string / array"),
        (json!({ "type": "integer" }), json!(1.5), "types /a: integer / number"),
        (
            json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }),
            json!("x"),
            "types /a: integer or null / string",
        ),
        // Bounds
        (json!({ "minimum": 1 }), json!(0), "bounds /a: a number >= 1 / another number"),
        (json!({ "maximum": 1 }), json!(2), "bounds /a: a number <= 1 / another number"),
        (json!({ "exclusiveMinimum": 1 }), json!(1), "bounds /a: a number > 1 / another number"),
        (json!({ "exclusiveMaximum": 1 }), json!(1), "bounds /a: a number < 1 / another number"),
        (json!({ "multipleOf": 5 }), json!(7), "bounds /a: a multiple of 5 / another number"),
        (json!({ "minLength": 3 }), json!("ab"), "bounds /a: at least 3 characters / 2 characters"),
        (json!({ "maxLength": 1 }), json!("äö"), "bounds /a: at most 1 characters / 2 characters"),
        (json!({ "minItems": 1 }), json!([]), "bounds /a: at least 1 items / 0 items"),
        (json!({ "maxItems": 1 }), json!([1, 2]), "bounds /a: at most 1 items / 2 items"),
        (json!({ "minProperties": 1 }), json!({}), "bounds /a: at least 1 members / 0 members"),
        (json!({ "maxProperties": 1 }), json!({ "x": 1, "y": 1 }), "bounds /a: at most 1 members / 2 members"),
        (json!({ "uniqueItems": true }), json!([1, 1]), "bounds /a: items that are all different / a repeated item"),
        (json!({ "contains": { "const": 1 } }), json!([2]), "bounds /a: an item of the contained kind / none"),
        (json!({ "pattern": "^inv_" }), json!("x"), "bounds /a: text matching `^inv_` / other text"),
        (json!({ "enum": ["x", 1] }), json!("q"), "bounds /a: one of \"x\", 1 / another string"),
        (json!({ "const": 1 }), json!(2), "bounds /a: exactly 1 / another integer"),
        (
            json!({ "not": { "type": "null" } }),
            json!(null),
            "bounds /a: a value outside the excluded kind; if there is none, leave it out / a value of it",
        ),
        // Behind a reference
        (json!({ "$ref": "#/$defs/point" }), json!({}), "structure /a/x: integer (required) / missing"),
    ]
}

#[test]
fn every_kind_is_told_at_its_gate() {
    for (schema, value, expected) in kinds() {
        assert_eq!(judged(&schema, &value), [expected], "{schema} {value}");
    }
}

/// Models write `null` for "none" and times without a zone; the error says what to write instead.
#[test]
fn what_is_wrong_most_often_is_told_with_its_repair() {
    let schema = json!({
        "type": "object", "required": ["must"],
        "properties": {
            "must": { "type": "string" }, "may": { "type": "string" }, "one": { "enum": ["a", "b"] },
            "either": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
            "in": { "type": "object", "properties": { "may": { "type": "integer" } } },
            "at": { "type": "string", "format": "date-time" },
        },
    });
    let compiled = CompiledSchema::compile(schema.as_object().unwrap(), SchemaProfile::Arguments).unwrap();
    let expected = |arguments: Value| -> Vec<String> {
        compiled.judge(&arguments).into_all().into_iter().map(|error| error.expected).collect()
    };
    let leave_out = |what: &str| vec![format!("{what}; if there is none, leave it out")];
    assert_eq!(expected(json!({ "must": "x", "may": null })), leave_out("string"));
    assert_eq!(expected(json!({ "must": "x", "either": null })), leave_out("string or integer"));
    assert_eq!(expected(json!({ "must": "x", "one": null })), leave_out("one of \"a\", \"b\""));
    assert_eq!(expected(json!({ "must": "x", "in": { "may": null } })), leave_out("integer"));
    assert_eq!(expected(json!({ "must": null })), ["string"], "what has to be there cannot be left out");
    let zoneless = expected(json!({ "must": "x", "at": "2026-11-20T10:00:00" })).join("");
    assert!(zoneless.contains("with its zone, e.g. `2026-11-20T09:30:00Z`"), "{zoneless}");
}

#[test]
fn formats_are_asserted() {
    let cases = [
        ("date", "2026-11-15", "2026-02-30"),
        ("date-time", "2026-11-15T09:35:32Z", "2026-11-15 09:35"),
        ("time", "09:35:32Z", "9:35"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "a@example.test", "a at example"),
        ("hostname", "example.test", "-x-"),
        ("ipv4", "192.0.2.1", "192.0.2.256"),
        ("ipv6", "2001:db8::1", "2001:::1"),
        ("uri", "https://example.test/a", "not a uri"),
        ("uuid", "018f3b3e-7c1e-7000-8000-000000000000", "018f3b3e"),
        ("json-pointer", "/a/0", "a/0"),
        ("regex", "^a+$", "(a"),
    ];
    for (format, good, bad) in cases {
        let schema = json!({ "type": "string", "format": format });
        assert_eq!(judged(&schema, &json!(good)), Vec::<String>::new(), "{format}");
        let told = judged(&schema, &json!(bad)).join("; ");
        assert!(told.starts_with("bounds /a: ") && told.contains(format), "{told}");
        // The example in the error is valid in the format.
        for example in told.split("e.g. ").skip(1).flat_map(|rest| rest.split('`').skip(1).step_by(2)) {
            assert_eq!(judged(&schema, &json!(example)), Vec::<String>::new(), "{format}: {example}");
        }
    }
    // An unknown format constrains nothing; refusing it would refuse tools that are in use.
    assert_eq!(judged(&json!({ "format": "starts_with" }), &json!("x")), Vec::<String>::new());
}

#[test]
fn the_nearest_alternative_is_told() {
    let nullable = json!({ "anyOf": [{ "$ref": "#/$defs/point" }, { "type": "null" }] });
    // An object was meant, although `null` fails at a later gate.
    let expected = ["structure /a/x: one of 2 alternatives: integer (required) / missing"];
    assert_eq!(judged(&nullable, &json!({})), expected);

    let kinds = json!({ "oneOf": [
        { "properties": { "kind": { "const": "card" }, "number": { "type": "string" } }, "required": ["kind"] },
        { "properties": { "kind": { "const": "cash" }, "drawer": { "type": "integer" } }, "required": ["kind", "drawer"] },
    ] });
    let cases = [
        (json!({ "kind": "cash", "drawer": "1" }), "types /a/drawer: one of 2 alternatives: integer / string"),
        (json!({ "kind": "cash" }), "structure /a/drawer: one of 2 alternatives: integer (required) / missing"),
        (json!({ "kind": "card", "number": 1 }), "types /a/number: one of 2 alternatives: string / integer"),
        (
            json!({ "kind": "card", "drawer": 1 }),
            "structure /a/drawer: fields of one alternative / a field of another alternative",
        ),
        // Neither alternative requires an object, so a string fits both.
        (json!("card"), "structure /a: exactly one alternative / a value that fits more than one"),
    ];
    for (value, expected) in cases {
        assert_eq!(judged(&kinds, &value), [expected], "{value}");
    }
}

#[test]
fn kinds_that_only_draft_07_has() {
    let schema =
        compiled(json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
        "tuple": { "items": [{}], "additionalItems": false },
        "encoded": { "contentEncoding": "base64" },
        "media": { "contentMediaType": "application/json" },
    } }));
    assert_eq!(
        told(schema.judge(&json!({ "tuple": [1, 2], "encoded": "***", "media": "{" }))),
        [
            "structure /tuple: at most 1 items / 2 items",
            "bounds /encoded: text encoded as `base64` / other text",
            "bounds /media: text of type `application/json` / other text",
        ]
    );
}

#[test]
fn a_failing_part_does_not_make_its_members_unknown() {
    let schema =
        json!({ "allOf": [{ "properties": { "count": { "type": "integer" } } }, { "properties": { "name": {} } }] });
    assert_eq!(judged(&schema, &json!({ "count": "3", "name": 1 })), ["types /a/count: integer / string"]);
    assert_eq!(
        judged(&schema, &json!({ "count": "3", "nam": 1 })),
        ["structure /a/nam: only count, name / an unknown field", "types /a/count: integer / string"]
    );
}

#[test]
fn every_error_is_listed_and_a_flood_is_counted() {
    let schema = compiled(json!({ "type": "object", "required": ["id"],
        "properties": { "id": {}, "list": { "items": { "type": "integer" } } } }));
    let findings = schema.judge(&json!({ "list": vec!["x"; 10], "other": 1 }));
    assert_eq!((findings.structure.len(), findings.types.len(), findings.bounds.len()), (2, 10, 0));
    // Many errors of one gate do not hide those of another gate.
    let findings = schema.judge(&json!({ "list": vec!["x"; 1_000], "other": 1 }));
    assert_eq!((findings.structure.len(), findings.types.len()), (2, 65));
    assert_eq!(findings.types[64].message, "936 more errors of this gate are not listed");
}

#[test]
fn did_you_mean() {
    let schema = compiled(json!({ "type": "object", "properties": {
        "invoice_id": {}, "amount": {}, "reason": { "enum": ["duplicate", "customer_request"] },
        "inner": { "properties": { "recipient": {} } },
    } }));
    let meant = |value: Value| schema.judge(&value).into_all()[0].did_you_mean.clone();
    for (written, expected) in [
        ("invoiceId", Some("invoice_id")),
        ("invoice-id", Some("invoice_id")),
        ("INVOICE_ID", Some("invoice_id")),
        ("ammount", Some("amount")),
        ("amout", Some("amount")),
        ("xyz", None),
        ("", None),
    ] {
        assert_eq!(meant(json!({ written: 1 })).as_deref(), expected, "{written}");
    }
    assert_eq!(meant(json!({ "inner": { "recipent": 1 } })).as_deref(), Some("recipient"));
    for (written, expected) in [
        ("Duplicate", Some("duplicate")),
        ("customer-request", Some("customer_request")),
        ("duplicat", Some("duplicate")),
        ("other", None),
    ] {
        assert_eq!(meant(json!({ "reason": written })).as_deref(), expected, "{written}");
    }
    assert_eq!(meant(json!({ "x".repeat(100_000): 1 })), None);
}

#[test]
fn a_misspelt_required_field_says_what_was_sent_instead() {
    let schema = compiled(
        json!({ "type": "object", "required": ["invoice_id"], "properties": { "invoice_id": { "type": "string" } } }),
    );
    let findings = schema.judge(&json!({ "invoiceId": "x" }));
    let messages: Vec<&str> = findings.structure.iter().map(|error| error.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "`invoiceId` is not a field of this tool: only invoice_id",
            "`invoice_id` is missing: string (required); `invoiceId` was sent instead"
        ]
    );
}

#[test]
fn long_lists_and_names_are_cut() {
    let options: Vec<String> = (0..500).map(|number| format!("option_{number}")).collect();
    let told = judged(&json!({ "enum": options }), &json!("none"));
    assert!(told[0].contains("\"option_31\" and 468 more"), "{told:?}");
    let name = "n".repeat(10_000);
    let schema = compiled(json!({ "type": "object", "additionalProperties": { "type": "integer" } }));
    let error = &schema.judge(&json!({ name: "x" })).types[0];
    assert!(error.pointer.len() <= 512 && error.message.len() < 700, "{}", error.message.len());
}

#[test]
fn pointers_escape_and_names_do_not() {
    let schema = compiled(
        json!({ "type": "object", "properties": { "a/b": { "properties": { "c~d": { "type": "integer" } } } } }),
    );
    let error = &schema.judge(&json!({ "a/b": { "c~d": "x" } })).types[0];
    assert_eq!((error.pointer.as_str(), error.field.as_str()), ("/a~1b/c~0d", "a/b.c~d"));
}

const CANARY: &str = "canary-5f1e9";

/// Values with the canary in every place except member names.
fn canaries() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(CANARY.to_owned()),
        ".{0,8}".prop_map(|text| format!("{text}{CANARY}")),
        (0_usize..200).prop_map(|length| format!("{CANARY}{}", "z".repeat(length))),
    ];
    let leaf = text.prop_map(Value::from);
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Value::from),
            proptest::collection::hash_map("[abxy]|kind|drawer", inner, 1..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_error_repeats_the_value(value in canaries()) {
        for (schema, _, _) in kinds() {
            for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
                let whole = json!({ "type": "object", "properties": { "a": schema, "b": schema },
                    "$defs": { "point": { "required": ["x"], "properties": { "x": { "type": "integer" } } } } });
                let compiled = CompiledSchema::compile(whole.as_object().unwrap(), profile).unwrap();
                for error in compiled.judge(&json!({ "a": value, "b": [value] })).into_all() {
                    prop_assert!(!format!("{error:?}").contains(CANARY), "{schema}: {error:?}");
                }
            }
        }
    }
}
