//! JSON Schema: schemas as servers write them, and values as agents send them against schemas made to be hard.

use serde_json::{Value, json};
use servanda_contract::{
    json,
    schema::{CompiledSchema, SchemaProfile},
};

use super::{NotReady, Reader, server_texts::LIMITS};
use crate::Grammar;

const NAMES: &[&str] = &["text", "list", "tree", "left", "right", "format", "name", "kind", "number", "tags"];
const FORMATS: &[&str] = &[
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uuid",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
    "regex",
];

pub(super) fn readers() -> Result<Vec<Reader>, NotReady> {
    let mut compiled = Vec::new();
    for schema in hard() {
        let schema = schema.as_object().cloned().unwrap_or_default();
        for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
            compiled.push(CompiledSchema::compile(&schema, profile)?);
        }
    }
    Ok(vec![
        Reader::new("schema_texts", 4, schema_grammar(), read_schema),
        Reader::new("schema_values", 12, value_grammar(), move |bytes| {
            let Ok(value) = json::decode(bytes, LIMITS) else { return };
            // One of them for each text, because a call is validated by one.
            let Some(schema) = compiled.get(bytes.len() % compiled.len().max(1)) else { return };
            let mut completed = value;
            schema.apply_defaults(&mut completed);
            drop(schema.judge(&completed));
        }),
    ])
}

fn read_schema(bytes: &[u8]) {
    let Ok(Value::Object(schema)) = json::decode(bytes, LIMITS) else { return };
    for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
        let Ok(compiled) = CompiledSchema::compile(&schema, profile) else { continue };
        for value in [
            json!({}),
            json!({ "a": { "a": [1, "a"] }, "b": "aaaaaaaaaaaaaaaaaaaaaaaa", "$ref": 1 }),
            Value::Object(schema.clone()),
        ] {
            let mut completed = value;
            compiled.apply_defaults(&mut completed);
            drop(compiled.judge(&completed));
        }
        let _ = (compiled.may_have("a"), compiled.declares("a"));
    }
}

/// Schemas on which a careless validator takes for ever.
fn hard() -> Vec<Value> {
    let formats: Vec<Value> = FORMATS.iter().map(|format| json!({ "format": format })).collect();
    let patterns: Vec<Value> = [
        "^(a|aa)+$",
        "^([a-z]+)*x$",
        "(x+x+)+y",
        "^(.*?,){11}P",
        "[01]*1[01]{12}$",
        r"^\p{L}{1,20}$",
        r"^(\w+\s?)*$",
        "a{0,500}b",
    ]
    .iter()
    .map(|pattern| json!({ "pattern": pattern }))
    .collect();
    let names: Vec<String> = (0..500).map(|number| format!("choice_{number}")).collect();
    vec![
        json!({ "type": "object", "properties": {
            "text": { "allOf": patterns },
            "format": { "anyOf": formats },
            "list": { "type": "array", "uniqueItems": true },
            "tags": { "type": "array", "uniqueItems": true, "contains": { "type": "string", "minLength": 3 }, "maxContains": 3 },
            "number": { "multipleOf": 0.01, "exclusiveMaximum": 1e300 },
            "kind": { "enum": names },
        } }),
        json!({ "type": "object", "$ref": "#/$defs/tree", "$defs": { "tree": {
            "type": "object",
            "properties": { "left": { "$ref": "#/$defs/tree" }, "right": { "$ref": "#/$defs/tree" }, "name": { "default": "a" } },
            "unevaluatedProperties": false,
        } } }),
        json!({ "type": "object", "$defs": { "node": { "oneOf": [
            { "type": "object", "required": ["left"], "properties": { "left": { "$ref": "#/$defs/node" } } },
            { "type": "object", "required": ["right"], "properties": { "right": { "$ref": "#/$defs/node" } } },
            { "type": "array", "items": { "$ref": "#/$defs/node" } },
            { "type": ["string", "number"] },
        ] } }, "properties": { "tree": { "$ref": "#/$defs/node" } }, "unevaluatedProperties": { "$ref": "#/$defs/node" } }),
        json!({ "type": "object", "patternProperties": { "^([a-z]+)+$": { "type": ["string", "array", "object"] }, "m[0-9]+": true },
            "propertyNames": { "maxLength": 12 }, "dependentSchemas": { "left": { "required": ["right"] } },
            "if": { "properties": { "kind": { "const": "choice_1" } } }, "then": { "required": ["number"] }, "else": { "maxProperties": 100 },
            "not": { "required": ["tags", "list"] }, "unevaluatedProperties": { "type": "string" } }),
        json!({ "type": "object", "additionalProperties": { "type": "array", "items": { "type": "array", "uniqueItems": true,
            "unevaluatedItems": false, "prefixItems": [{ "anyOf": [{ "type": "object" }, { "type": "string", "maxLength": 4 }] }] } } }),
    ]
}

fn schema_grammar() -> Grammar {
    let words = "type object array string properties required items prefixItems allOf anyOf oneOf not if then else $ref #/$defs/a # #a $defs a b pattern \
        patternProperties ^([a-z]+)+$ [01]*1[01]{12}$ \\w{200} \\p{L}{50} \\w \\d\\w (a{0,99}){0,99} (?=a) (a)\\1 additionalProperties unevaluatedProperties \
        unevaluatedItems propertyNames contains minContains maxContains uniqueItems enum const default format regex email uri multipleOf minimum maxLength \
        dependentSchemas dependentRequired $id $anchor $dynamicRef $dynamicAnchor $schema http://json-schema.org/draft-07/schema# \
        https://json-schema.org/draft/2019-09/schema definitions #/definitions/a #/properties/a x-effect";
    Grammar {
        words: words
            .split_whitespace()
            .chain(["{", "}", "[", "]", "\"", ":", ",", "true", "{\"$ref\":\"#\"}", "{\"$ref\":\"#/$defs/a\"}"])
            .collect(),
        brackets: vec![
            ("{\"properties\":{\"a\":", "}}"),
            ("{\"allOf\":[", "]}"),
            ("{\"not\":", "}"),
            ("{\"items\":", "}"),
            ("{\"anyOf\":[{},", "]}"),
            ("{\"$defs\":{\"a\":", "}}"),
            ("{\"if\":", "}"),
            ("{\"additionalProperties\":", "}"),
            ("{\"default\":", "}"),
            ("{\"a\":", "}"),
        ],
        seeds: SCHEMA_SEEDS.to_vec(),
        members: words
            .split_whitespace()
            .filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"$-".contains(&byte)))
            .collect(),
    }
}

const SCHEMA_SEEDS: &[&str] = &[
    r##"{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]+$","default":"x"},"b":{"$ref":"#/$defs/a"}},"required":["a"],"$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}}}}}"##,
    r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"allOf":[{"properties":{"a":{"$ref":"#/definitions/a"}}},{"properties":{"a":{"$ref":"#/definitions/a"}}}]}},"properties":{"b":{"$ref":"#/definitions/a"}}}"##,
    r##"{"type":"object","anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"items":{"$dynamicRef":"#n"}}}}],"$dynamicAnchor":"n","unevaluatedProperties":false}"##,
    r#"{"type":"object","patternProperties":{"^a+$":{"uniqueItems":true,"contains":{"enum":[1,"a",null]}}},"propertyNames":{"pattern":"^(a|b)*$"},"if":{"minProperties":2},"then":{"maxProperties":3}}"#,
    r#"{"type":"object","properties":{"a":{"type":"array","prefixItems":[{"format":"email"},{"format":"uri"}],"items":false,"unevaluatedItems":{"not":{}}}},"dependentSchemas":{"a":{"required":["b"]}}}"#,
];

fn value_grammar() -> Grammar {
    Grammar {
        words: "a aa x xx y 0 1 01 , P choice_1 a@b.c @ . a. .a xn-- http://a/ {a} % 1.2.3.4 :: 2026-11-15T09:30:00Z P1D /a ~0 (a+)+ [ { \\w \\d \\p{L} \u{e9} \u{df} \
            \u{3002} 00000000-0000-0000-0000-000000000000 #"
            .split_whitespace()
            .collect(),
        brackets: vec![("{\"left\":", "}"), ("{\"tree\":[", "]}"), ("[", "]"), ("{\"left\":{\"right\":", "}}"), ("{\"a\":[[", "]]}")],
        seeds: vec![
            r#"{"text":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab","format":"a@b.example","list":[1,1.0,"1"],"tags":["abc","abcd"],"number":0.07,"kind":"choice_7"}"#,
            r#"{"tree":{"left":[{"right":"a"},{"left":1}]},"left":{"right":{"name":"x"}},"right":{}}"#,
        ],
        members: NAMES.to_vec(),
    }
}
