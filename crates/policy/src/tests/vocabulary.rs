//! The printed schema is valid, and says what it left out.

use cedar_policy::Schema;
use servanda_contract::tool::{DataClassification, SideEffectClass};

use super::{contracts, golden, tool, vocabulary_of};
use crate::{ToolFacts, Vocabulary, VocabularyError};

#[test]
fn the_schema_of_the_fixtures_is_golden_and_cedar_reads_it_back() {
    let vocabulary = vocabulary_of(&contracts());
    let text = vocabulary.schema_text();
    golden("schema.cedarschema", &text);
    let (_, warnings) = Schema::from_cedarschema_str(&text).unwrap();
    assert_eq!(warnings.count(), 0);
}

#[test]
fn every_argument_that_is_not_seen_is_listed_with_its_reason() {
    let vocabulary = vocabulary_of(&contracts());
    let untyped: Vec<(&str, &str)> = vocabulary
        .untyped()
        .iter()
        .filter(|untyped| untyped.tool == "bank.pay")
        .map(|untyped| (untyped.pointer.as_str(), untyped.reason.as_str()))
        .collect();
    assert_eq!(
        untyped,
        [
            ("/either", "it may be of several types"),
            ("/extra", "it is an object without declared members"),
            ("/anything", "it may be anything"),
            ("/pair", "its items differ by position"),
            ("/tree/next", "it contains itself"),
        ]
    );
}

#[test]
fn names_that_policies_could_not_tell_apart_are_refused() {
    let twice = [contracts().remove(0), contracts().remove(0)];
    let error = Vocabulary::from_tools(twice.iter().map(ToolFacts::from)).unwrap_err();
    assert!(matches!(error, VocabularyError::SameName { tool } if tool == "bank.pay"));
    for name in ["", "a b", "a\"b", "any other tool", "ü", &"x".repeat(129)] {
        let odd = tool(name, SideEffectClass::ReadOnly, DataClassification::Public);
        let error = Vocabulary::from_tools([ToolFacts::from(&odd)]).unwrap_err();
        assert!(matches!(error, VocabularyError::Name { .. }), "{name:?}");
    }
}

#[test]
fn the_sample_company_has_a_schema() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../sample/contracts");
    let contracts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .map(|text| servanda_contract::document::read("sample.yaml", &text).unwrap())
        .collect();
    assert!(contracts.len() > 10);
    assert!(Schema::from_cedarschema_str(&vocabulary_of(&contracts).schema_text()).is_ok());
}
