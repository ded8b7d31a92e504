//! Our contract and observation against the specification's own schemas, read in place.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::{
    schema::{CompiledSchema, SchemaProfile},
    schemas,
    testing::{shared, void_invoice},
};

const SECTIONS: [&str; 8] = [
    "identity",
    "affordance",
    "runtime",
    "security",
    "transactional",
    "idempotency",
    "observability",
    "error_contract",
];

/// The JSON document with this title in the specification's text.
fn specified(title: &str) -> Option<Value> {
    let text = fs::read_to_string(shared("seeds/004_c85f39b29f83610d.txt")?).unwrap();
    let starts = text.match_indices("{\n  \"$schema\"").map(|(at, _)| at);
    let mut documents =
        starts.filter_map(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok());
    Some(documents.find(|document| document["title"] == json!(title)).unwrap())
}

#[test]
fn the_observation_schema_is_the_specification_s() {
    let Some(mut specified) = specified("ObservationObject") else { return };
    let mut ours = schemas::observation();
    assert_ne!(ours["$id"], specified["$id"]);
    for schema in [&mut ours, &mut specified] {
        schema.as_object_mut().unwrap().remove("$id");
    }
    assert_eq!(ours, specified);
}

#[test]
fn the_specification_s_contract_schema_accepts_our_eight_sections() {
    let Some(mut specified) = specified("ToolContract") else { return };
    // Ours has sections beside the eight, and one of them has a title for people.
    specified.as_object_mut().unwrap().remove("additionalProperties");
    let compiled = CompiledSchema::compile(specified.as_object().unwrap(), SchemaProfile::Results).unwrap();
    let contract = json!(void_invoice());
    assert_eq!(compiled.judge(&contract).into_all(), []);
    for section in SECTIONS {
        assert!(contract[section].is_object(), "{section}");
    }
}

/// Every field of the specification is in ours, with the same requirements.
#[test]
fn our_contract_schema_has_every_field_of_the_specification() {
    let Some(specified) = specified("ToolContract") else { return };
    let ours = schemas::contract();
    assert_eq!(words(&specified["required"]), SECTIONS.iter().map(|section| (*section).to_owned()).collect());
    let mut walk = Walk { ours: &ours, fields: 0, differences: Vec::new() };
    walk.object("", &specified, &ours);
    println!("contract schema: {} fields of the specification compared", walk.fields);
    assert_eq!(walk.differences, Vec::<String>::new());
    assert!(walk.fields > 50, "{}", walk.fields);
}

struct Walk<'a> {
    ours: &'a Value,
    fields: usize,
    differences: Vec<String>,
}

impl Walk<'_> {
    fn object(&mut self, at: &str, specified: &Value, ours: &Value) {
        let ours = self.behind(ours);
        let required = words(&specified["required"]);
        let missing: Vec<String> = required.difference(&words(&ours["required"])).cloned().collect();
        self.expect(missing.is_empty(), at, &format!("does not require {missing:?}"));
        if specified["additionalProperties"] == json!(false) {
            self.expect(ours["additionalProperties"] == json!(false), at, "is not closed");
        }
        for (name, field) in specified["properties"].as_object().into_iter().flatten() {
            self.fields += 1;
            let at = format!("{at}/{name}");
            let found = &ours["properties"][name];
            self.expect(!found.is_null(), &at, "is missing");
            self.field(&at, field, found);
        }
    }

    fn field(&mut self, at: &str, specified: &Value, ours: &Value) {
        let ours = self.behind(ours);
        self.expect(words(&specified["type"]) == types(&ours), at, &format!("has type {}", ours["type"]));
        for limit in ["minimum", "maximum", "pattern", "format"] {
            let same = specified[limit].is_null()
                || ours[limit] == specified[limit]
                || same_number(&ours[limit], &specified[limit]);
            self.expect(same, at, &format!("has {limit} {}", ours[limit]));
        }
        if specified["enum"].is_array() {
            self.expect(words(&specified["enum"]) == options(&ours), at, &format!("has options {:?}", options(&ours)));
        }
        if specified["items"].is_object() {
            self.field(&format!("{at}/*"), &specified["items"], &ours["items"]);
        }
        if specified["additionalProperties"].is_object() {
            self.field(&format!("{at}/*"), &specified["additionalProperties"], &ours["additionalProperties"]);
        }
        if specified["properties"].is_object() {
            self.object(at, specified, &ours);
        }
    }

    fn behind(&self, schema: &Value) -> Value {
        match schema["$ref"].as_str() {
            Some(reference) => self.behind(self.ours.pointer(reference.trim_start_matches('#')).unwrap()),
            None => schema.clone(),
        }
    }

    fn expect(&mut self, holds: bool, at: &str, difference: &str) {
        if !holds {
            self.differences.push(format!("{at} {difference}"));
        }
    }
}

fn words(value: &Value) -> BTreeSet<String> {
    let several = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
    several.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

/// The options of an enumeration, which schemars writes as `enum`, or as `oneOf` of `const` where options are described.
fn options(schema: &Value) -> BTreeSet<String> {
    let described = schema["oneOf"].as_array().into_iter().flatten();
    words(&schema["enum"]).into_iter().chain(described.flat_map(|option| words(&option["const"]))).collect()
}

fn types(schema: &Value) -> BTreeSet<String> {
    let described = schema["oneOf"].as_array().into_iter().flatten();
    words(&schema["type"]).into_iter().chain(described.flat_map(|option| words(&option["type"]))).collect()
}

fn same_number(one: &Value, other: &Value) -> bool {
    one.as_f64().is_some() && one.as_f64() == other.as_f64()
}
