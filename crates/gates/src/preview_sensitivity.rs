//! Which parts of what others say about a call are sensitive: of an upstream's preview of it, and of the state that a read tool shows before
//! it. That is what the schema of the tool's results marks, and whatever repeats a sensitive argument. A preview is no result, so its schema is
//! not enforced on it; its marks count all the same.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    CompiledContract,
    approval_texts::{SECRET, SENSITIVE_MAX, SensitiveSearch},
};

/// What was said has a sensitive argument as the name of a member, and a name cannot be masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what was said is not shown: it has a sensitive argument as a name")]
pub struct SensitiveName(());

impl CompiledContract {
    /// The sensitive parts of what the upstream's own dry run said about a call with these arguments: JSON Pointer and sensitivity.
    pub fn sensitive_in_preview(
        &self,
        said: &Value,
        arguments: &Bytes,
    ) -> Result<BTreeMap<String, String>, SensitiveName> {
        self.sensitive_in_answer(said, self.sensitive_texts(arguments))
    }

    /// The sensitive parts of something that the contract's tool said: what its schema marks, and what repeats one of these texts.
    fn sensitive_in_answer(
        &self,
        said: &Value,
        told: Vec<(String, String)>,
    ) -> Result<BTreeMap<String, String>, SensitiveName> {
        let root = &*self.contract().affordance.output_schema;
        let mut search = SensitiveSearch::new(root);
        search.value(said, root, 0);
        let mut repeats = RepeatSearch { told, found: search.found };
        repeats.value(said, &mut String::new())?;
        if repeats.found.len() > SENSITIVE_MAX {
            // What cannot be listed is masked whole.
            return Ok([(String::new(), SECRET.to_owned())].into());
        }
        Ok(repeats.found)
    }

    /// The sensitive arguments as texts, each with its sensitivity. `true`, `false` and `null` are left out, because they say nothing wherever
    /// else they stand.
    fn sensitive_texts(&self, arguments: &Bytes) -> Vec<(String, String)> {
        let value: Value = serde_json::from_slice(arguments).unwrap_or_default();
        let mut texts = Vec::new();
        for (pointer, sensitivity) in self.approval_texts(arguments).sensitive {
            if let Some(found) = value.pointer(&pointer) {
                add_texts(found, &sensitivity, &mut texts);
            }
        }
        texts
    }
}

/// The sensitive parts of the state that a read tool showed: JSON Pointer and sensitivity. `by` is its contract with the arguments of the
/// question, `about` the contract of the call that people decide about, with its arguments: whatever repeats a sensitive one of either is
/// sensitive too.
pub fn sensitive_in_state(
    state: &Value,
    by: (&CompiledContract, &Bytes),
    about: (&CompiledContract, &Bytes),
) -> Result<BTreeMap<String, String>, SensitiveName> {
    let told = [about, by].into_iter().flat_map(|(contract, arguments)| contract.sensitive_texts(arguments));
    by.0.sensitive_in_answer(state, told.collect())
}

fn add_texts(value: &Value, sensitivity: &str, texts: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if !text.is_empty() => texts.push((text.clone(), sensitivity.to_owned())),
        Value::Number(number) => texts.push((number.to_string(), sensitivity.to_owned())),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, sensitivity, texts)),
        Value::Object(members) => {
            for (name, member) in members {
                texts.push((name.clone(), sensitivity.to_owned()));
                add_texts(member, sensitivity, texts);
            }
        }
        _ => {}
    }
}

/// Finds the leaves that repeat one of these texts.
struct RepeatSearch {
    told: Vec<(String, String)>,
    found: BTreeMap<String, String>,
}

impl RepeatSearch {
    fn value(&mut self, value: &Value, pointer: &mut String) -> Result<(), SensitiveName> {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if self.repeated_in(name).is_some() {
                        return Err(SensitiveName(()));
                    }
                    self.inside(name, member, pointer)?;
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(&index.to_string(), item, pointer)?;
                }
            }
            Value::String(text) => self.leaf(text, pointer),
            Value::Number(number) => self.leaf(&number.to_string(), pointer),
            Value::Bool(_) | Value::Null => {}
        }
        Ok(())
    }

    fn inside(&mut self, step: &str, value: &Value, pointer: &mut String) -> Result<(), SensitiveName> {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        self.value(value, pointer)?;
        pointer.truncate(length);
        Ok(())
    }

    fn leaf(&mut self, text: &str, pointer: &str) {
        if let Some(sensitivity) = self.repeated_in(text) {
            self.found.insert(pointer.to_owned(), sensitivity);
        }
    }

    /// The sensitivity of the first sensitive text that this one contains.
    fn repeated_in(&self, text: &str) -> Option<String> {
        self.told.iter().find(|(told, _)| text.contains(told.as_str())).map(|(_, sensitivity)| sensitivity.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use servanda_contract::ToolContract;

    use super::*;
    use crate::{RegisteredContracts, admit};

    fn compiled() -> CompiledContract {
        let text = include_str!("../../contract/tests/fixtures/void_invoice.yaml");
        let mut contract: ToolContract = ToolContract::from_document("void_invoice.yaml", text).unwrap();
        contract.rules.clear();
        contract.affordance.examples.clear();
        let secret = json!({ "type": "string", "x-sensitivity": "financial" });
        let input = json!({ "type": "object", "properties": { "card": secret, "note": { "type": "string" } } });
        contract.affordance.input_schema = input.as_object().unwrap().clone().into();
        let output =
            json!({ "type": "object", "properties": { "balance": { "type": "number", "x-sensitivity": "personal" } } });
        contract.affordance.output_schema = output.as_object().unwrap().clone().into();
        contract.affordance.examples =
            vec![serde_json::from_value(json!({ "description": "a card", "arguments": { "card": "4111" } })).unwrap()];
        admit(contract, &RegisteredContracts::new()).unwrap()
    }

    fn check(said: &Value, expected: Result<&[(&str, &str)], ()>) {
        let arguments = Bytes::from_static(br#"{"card":"4111","note":"hello"}"#);
        let found = compiled().sensitive_in_preview(said, &arguments).map_err(|_| ());
        let expected =
            expected.map(|pairs| pairs.iter().map(|(at, kind)| ((*at).to_owned(), (*kind).to_owned())).collect());
        assert_eq!(found, expected, "{said}");
    }

    #[test]
    fn marked_members_and_repeated_arguments_are_sensitive_and_nothing_else() {
        check(&json!({ "would": "write", "note": "hello", "ok": true }), Ok(&[]));
        check(&json!({ "balance": 7 }), Ok(&[("/balance", "personal")]));
        check(&json!({ "text": "charges 4111 now" }), Ok(&[("/text", "financial")]));
        check(&json!([{ "type": "text", "text": "4111" }]), Ok(&[("/0/text", "financial")]));
        check(&json!({ "n": 41_115, "a/b~": ["x4111"] }), Ok(&[("/a~1b~0/0", "financial"), ("/n", "financial")]));
        check(&json!("4111"), Ok(&[("", "financial")]));
        check(&json!({ "cards": { "4111": 1 } }), Err(()));
    }

    #[test]
    fn a_state_is_judged_by_the_read_tool_s_schema_and_by_the_arguments_of_both() {
        let compiled = compiled();
        let (about, asked) = (Bytes::from_static(br#"{"card":"4111"}"#), Bytes::from_static(br#"{"card":"8222"}"#));
        let sensitive = |state: &Value| sensitive_in_state(state, (&compiled, &asked), (&compiled, &about));
        let found = sensitive(&json!({ "balance": 7, "of": "4111", "by": "8222", "name": "bob" })).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(at, kind)| (at.as_str(), kind.as_str())).collect();
        assert_eq!(found, [("/balance", "personal"), ("/by", "financial"), ("/of", "financial")]);
        assert!(sensitive(&json!({ "4111": 1 })).is_err() && sensitive(&json!({ "8222": 1 })).is_err());
    }

    #[test]
    fn a_preview_that_repeats_too_much_is_masked_whole() {
        let many: Vec<Value> = (0..=SENSITIVE_MAX).map(|_| json!("4111")).collect();
        check(&json!({ "cards": many }), Ok(&[("", "secret")]));
    }
}
