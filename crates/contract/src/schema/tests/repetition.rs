//! Every keyword of JSON Schema, repeated: deep, wide and in chains of references. Nothing overflows a thread's stack, whether
//! or not the schema compiles. A schema that compiles validates values within the same stack.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{CompiledSchema, SchemaProfile};
use crate::json::{JsonLimits, decode};

const REPEATED: usize = 20_000;
/// The limits of the gateway and of the document reader.
const LIMITS: JsonLimits = JsonLimits { bytes_max: 8 << 20, depth_max: 64 };

/// Keywords with a schema inside: the text before it and after it.
const NESTING: &[(&str, &str)] = &[
    (r#"{"properties":{"a":"#, "}}"),
    (r#"{"patternProperties":{"a":"#, "}}"),
    (r#"{"dependentSchemas":{"a":"#, "}}"),
    (r#"{"$defs":{"a":"#, "}}"),
    (r#"{"definitions":{"a":"#, "}}"),
    (r#"{"allOf":["#, "]}"),
    (r#"{"anyOf":[{"required":["b"]},"#, "]}"),
    (r#"{"oneOf":[false,"#, "]}"),
    (r#"{"not":"#, "}"),
    (r#"{"if":"#, "}"),
    (r#"{"then":"#, "}"),
    (r#"{"else":"#, "}"),
    (r#"{"items":"#, "}"),
    (r#"{"prefixItems":["#, "]}"),
    (r#"{"contains":"#, "}"),
    (r#"{"additionalProperties":"#, "}"),
    (r#"{"propertyNames":"#, "}"),
    (r#"{"unevaluatedProperties":"#, "}"),
    (r#"{"unevaluatedItems":"#, "}"),
    (r#"{"default":"#, "}"),
    (r#"{"const":"#, "}"),
    (r#"{"enum":["#, "]}"),
    (r#"{"unknown":"#, "}"),
];

/// A schema with a very long list or map: the text before, one element with `#` for its number, and the text after.
const WIDE: &[(&str, &str, &str)] = &[
    (r#"{"type":"object","properties":{"#, r#""p#":{"type":"string"}"#, "}}"),
    (r#"{"type":"object","properties":{"#, r#""p#":{"default":#}"#, "}}"),
    (r#"{"type":"object","required":["#, r#""p#""#, "]}"),
    (r#"{"type":"object","patternProperties":{"#, r#""^p#$":true"#, "}}"),
    (r#"{"type":"object","allOf":["#, r#"{"required":["a"]}"#, "]}"),
    (r#"{"type":"object","anyOf":["#, r#"{"required":["p#"]}"#, "]}"),
    (r#"{"type":"object","oneOf":["#, r#"{"properties":{"p#":{}}}"#, "]}"),
    (r#"{"type":"object","$defs":{"#, r#""d#":{"type":"object","properties":{"a":{}}}"#, "}}"),
    (r#"{"type":"object","dependentRequired":{"#, r#""a#":["b#"]"#, "}}"),
    (r#"{"type":"object","dependentSchemas":{"#, r#""a#":{"required":["b"]}"#, "}}"),
    (r#"{"type":"object","properties":{"a":{"enum":["#, r#""e#""#, "]}}}"),
    (r#"{"type":"object","properties":{"a":{"prefixItems":["#, r#"{"type":"string"}"#, "]}}}"),
    (r#"{"type":"object","properties":{"a":{"type":["#, r#""string""#, "]}}}"),
    (r#"{"type":"object","examples":["#, r#"{"a":#}"#, "]}"),
];

/// References, each to the next.
const CHAINS: &[(&str, &str)] = &[
    ("plain", r##"{"$ref":"#/$defs/dNEXT"}"##),
    ("beside a keyword", r##"{"type":"object","$ref":"#/$defs/dNEXT"}"##),
    ("in a list", r##"{"allOf":[{"$ref":"#/$defs/dNEXT"}]}"##),
    ("in alternatives", r##"{"anyOf":[{"$ref":"#/$defs/dNEXT"},{"$ref":"#/$defs/dNEXT"}]}"##),
    ("in a condition", r##"{"if":{"$ref":"#/$defs/dNEXT"},"then":true}"##),
    ("of members", r##"{"properties":{"a":{"$ref":"#/$defs/dNEXT"}}}"##),
    ("of items", r##"{"items":{"$ref":"#/$defs/dNEXT"}}"##),
    ("of other members", r##"{"additionalProperties":{"$ref":"#/$defs/dNEXT"}}"##),
    (
        "of members, twice",
        r##"{"allOf":[{"properties":{"a":{"$ref":"#/$defs/dNEXT"}}},{"properties":{"a":{"$ref":"#/$defs/dNEXT"}}}]}"##,
    ),
];

#[test]
fn every_keyword_of_schemas_repeated_overflows_nothing() {
    on_a_thread(|| {
        for (open, close) in NESTING {
            for count in [REPEATED, 31, 30, 15, 7] {
                take(&format!("{}true{}", open.repeat(count), close.repeat(count)));
                let member = format!("{}true{}", open.repeat(count - 1), close.repeat(count - 1));
                take(&format!(r#"{{"type":"object","properties":{{"a":{member}}}}}"#));
            }
        }
        for (before, unit, after) in WIDE {
            for count in [REPEATED, 500] {
                let units: Vec<String> = (0..count).map(|number| unit.replace('#', &number.to_string())).collect();
                take(&format!("{before}{}{after}", units.join(",")));
            }
        }
    });
}

#[test]
fn references_to_references_overflow_nothing() {
    on_a_thread(|| {
        for (what, unit) in CHAINS {
            for count in [REPEATED, 128, 63, 30] {
                println!("{what}, {count} times");
                let mut definitions = String::new();
                for number in 0..count {
                    let definition = unit.replace("NEXT", &(number + 1).to_string());
                    let _ = write!(definitions, r#""d{number}":{definition},"#);
                }
                let end = format!(r#""d{count}":{{"type":"object"}}"#);
                for root in [r##""$ref":"#/$defs/d0""##, r##""properties":{"a":{"$ref":"#/$defs/d0"}}"##] {
                    take(&format!(r#"{{"type":"object",{root},"$defs":{{{definitions}{end}}}}}"#));
                }
            }
        }
    });
}

#[test]
fn patterns_repeated_overflow_nothing() {
    on_a_thread(|| {
        for (unit, close) in [
            ("(", ")"),
            ("(?:", ")"),
            ("a|", ""),
            ("a*", ""),
            ("(a", ")*"),
            ("[", "]"),
            ("[a-z]", ""),
            ("a?", ""),
            ("\\w", ""),
            ("{9}", ""),
            ("(?i)", ""),
            ("\\", ""),
            (".", ""),
            ("^", ""),
            ("$", ""),
            ("a{1,9}", ""),
            ("\\p{L}", ""),
            ("(?P<a>", ")"),
            ("\u{e9}", ""),
            ("[[", "]]"),
            ("[^", "]"),
        ] {
            for count in [REPEATED, 90] {
                let pattern = format!("{}a{}", unit.repeat(count), close.repeat(count));
                take(&json!({ "type": "object", "properties": { "a": { "pattern": pattern } } }).to_string());
                take(&json!({ "type": "object", "patternProperties": { &pattern: true } }).to_string());
                let schema = json!({ "type": "object", "properties": { "a": { "format": "regex" } } });
                let _ = super::compiled(schema).judge(&json!({ "a": pattern }));
            }
        }
    });
}

/// Definitions that all refer to each other have more paths through them than can be followed.
#[test]
fn references_of_all_to_all_are_refused_or_taken_at_once() {
    on_a_thread(|| {
        for count in [4, 8, 12, 40] {
            let all: Vec<Value> = (0..count).map(|number| json!({ "$ref": format!("#/$defs/d{number}") })).collect();
            let definitions: serde_json::Map<String, Value> = (0..count)
                .map(|number| {
                    (format!("d{number}"), json!({ "properties": { "a": { "items": { "prefixItems": all } } } }))
                })
                .collect();
            take(&json!({ "type": "object", "properties": { "a": all[0] }, "$defs": definitions }).to_string());
        }
    });
}

/// Compiles a schema with each profile, and validates values if it compiles.
fn take(text: &str) {
    let Ok(Value::Object(schema)) = decode(text.as_bytes(), LIMITS) else { return };
    let mut deep = json!("aaaa");
    (0..60).for_each(|_| deep = json!({ "a": deep.take() }));
    for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
        let Ok(compiled) = CompiledSchema::compile(&schema, profile) else { continue };
        for value in [json!({}), json!({ "a": "aaaaaaaa", "p1": 1 }), json!({ "a": [["a"], {}] }), deep.clone()] {
            let mut value = value;
            compiled.apply_defaults(&mut value);
            let _ = compiled.judge(&value);
        }
        let _ = (compiled.may_have("a"), compiled.declares("a"));
    }
}

/// Runs the work on a thread with the usual stack size of this process.
fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
