use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    TaxonomyClass, schemas,
    taxonomy::{EnvelopeCode, NextAction},
    testing::golden,
};

/// The whole table, as people read it: a change to any response changes this file.
#[test]
fn response_vectors() {
    let mut table = String::from(
        "class                          envelope             status repairable retryable approval closed escalate next action\n",
    );
    let word = |yes: bool| if yes { "yes" } else { "-" };
    for class in TaxonomyClass::ALL {
        let response = class.response();
        let envelope = class.envelope().map_or_else(|| "-".to_owned(), |code| text(&code));
        table.extend([format!(
            "{:<30} {:<20} {:<6} {:<10} {:<9} {:<8} {:<6} {:<8} {}\n",
            class.name(),
            envelope,
            class.status_code(),
            word(response.repairable),
            word(response.retryable),
            word(response.requires_approval),
            word(response.fail_closed),
            word(response.escalate),
            text(&response.next_action),
        )]);
    }
    golden("taxonomy.txt", &table);
}

#[test]
fn names_are_those_of_the_observation_schema() {
    let schema = schemas::observation();
    let words = &schema["properties"]["status"]["properties"]["taxonomy_class"]["enum"];
    let expected: BTreeSet<String> =
        words.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    let ours: BTreeSet<String> = TaxonomyClass::ALL.iter().map(|class| class.name().to_owned()).collect();
    assert_eq!(ours, expected);
    assert_eq!(ours.len(), 21);
    for class in TaxonomyClass::ALL {
        assert_eq!(json!(class), json!(class.name()));
        assert_eq!(serde_json::from_value::<TaxonomyClass>(json!(class.name())).unwrap(), class);
        assert_eq!(TaxonomyClass::from_name(class.name()), Some(class));
    }
    assert_eq!(TaxonomyClass::from_name("success"), None);
}

/// Ten of the eleven codes have a class. The resolve stage uses the eleventh, `TOOL_NOT_FOUND`: without a contract, there is no
/// class.
#[test]
fn every_envelope_code_has_its_use() {
    let of_classes: BTreeSet<String> =
        TaxonomyClass::ALL.iter().filter_map(|class| class.envelope()).map(|code| text(&code)).collect();
    let all = schemars::schema_for!(EnvelopeCode).to_value();
    let all: BTreeSet<String> = words(&all);
    assert_eq!(all.len(), 11);
    let without_class: Vec<&String> = all.difference(&of_classes).collect();
    assert_eq!(without_class, ["TOOL_NOT_FOUND"]);
}

#[test]
fn answers_do_not_contradict_each_other() {
    for class in TaxonomyClass::ALL {
        let response = class.response();
        let name = class.name();
        assert!(!(response.repairable && response.fail_closed), "{name}: what fails closed is not repaired");
        assert!(!(response.repairable && response.retryable), "{name}: a retry changes nothing, a repair does");
        let success = matches!(class, TaxonomyClass::Success | TaxonomyClass::PartialSuccess);
        assert_eq!(class.envelope().is_none(), success, "{name}");
        assert_eq!(class.status_code() < 300, success, "{name}");
    }
    let stale = TaxonomyClass::StaleState.response();
    // The specification's own example of a response vector.
    assert_eq!((stale.repairable, stale.escalate, stale.next_action), (true, false, NextAction::RefreshStateAndReplan));
}

fn text(value: &impl serde::Serialize) -> String {
    json!(value).as_str().unwrap().to_owned()
}

/// Every `const` and `enum` word of a schema.
fn words(schema: &Value) -> BTreeSet<String> {
    match schema {
        Value::Object(members) => {
            let own = members.iter().filter(|(keyword, _)| ["const", "enum"].contains(&keyword.as_str()));
            let own = own.flat_map(|(_, word)| word.as_array().cloned().unwrap_or_else(|| vec![word.clone()]));
            let own = own.filter_map(|word| word.as_str().map(str::to_owned));
            own.chain(members.values().flat_map(words)).collect()
        }
        Value::Array(items) => items.iter().flat_map(words).collect(),
        _ => BTreeSet::new(),
    }
}
