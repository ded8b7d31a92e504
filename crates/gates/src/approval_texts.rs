//! What a contract says about one call to the person who approves it: the consequence, the expected state, the question that shows the
//! present state, and which arguments are sensitive.
//!
//! Deliberately not here: whether the call needs an approval (gate 10), and asking the question.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};
use servanda_contract::tool::StateQuery;

use crate::{
    CompiledContract,
    placeholders::{filled, rendered_members},
};

/// Sensitive arguments of one call that are listed; a call with more has its whole arguments masked.
pub(crate) const SENSITIVE_MAX: usize = 256;
/// How deep schemas are followed.
const DEPTH_MAX: usize = 64;
/// The sensitivity of a value that the schema marks as one that is only written, such as a password.
pub(crate) const SECRET: &str = "secret";

/// What a person is told about one call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApprovalTexts {
    /// What happens if it is approved.
    pub consequence: Option<String>,
    /// The state that is expected afterwards.
    pub after: Option<String>,
    /// The tool that shows the present state, by contract name, and its arguments as JSON.
    pub before: Option<(String, Bytes)>,
    /// The sensitive arguments: JSON Pointer and sensitivity.
    pub sensitive: BTreeMap<String, String>,
}

impl CompiledContract {
    /// What the contract says about a call with these canonical arguments.
    pub fn approval_texts(&self, arguments: &Bytes) -> ApprovalTexts {
        let value: Value = serde_json::from_slice(arguments).unwrap_or_default();
        let contract = self.contract();
        let terms = contract.approval.as_deref();
        let text = |template: Option<&String>| template.map(|template| filled(template, &value));
        let before = terms.and_then(|terms| terms.before.as_ref()).map(|StateQuery { tool, arguments }| {
            (tool.clone(), Bytes::from(rendered_members(arguments, &value).to_string()))
        });
        let root = &*contract.affordance.input_schema;
        let mut search = SensitiveSearch::new(root);
        search.value(&value, root, 0);
        ApprovalTexts {
            consequence: text(terms.and_then(|terms| terms.consequence.as_ref())),
            after: text(terms.and_then(|terms| terms.after.as_ref())),
            before,
            sensitive: search.found,
        }
    }
}

/// Finds the values whose schema says that they are sensitive.
pub(crate) struct SensitiveSearch<'a> {
    root: &'a Map<String, Value>,
    /// JSON Pointer and sensitivity of each.
    pub(crate) found: BTreeMap<String, String>,
    pointer: String,
}

impl<'a> SensitiveSearch<'a> {
    /// A search in a document with this schema.
    pub(crate) fn new(root: &'a Map<String, Value>) -> Self {
        Self { root, found: BTreeMap::new(), pointer: String::new() }
    }

    pub(crate) fn value(&mut self, value: &Value, schema: &'a Map<String, Value>, depth: usize) {
        if depth > DEPTH_MAX || self.found.len() >= SENSITIVE_MAX {
            // What cannot be judged is not shown.
            self.found.insert(self.pointer.clone(), SECRET.to_owned());
            return;
        }
        if let Some(sensitivity) = sensitivity(schema) {
            self.found.insert(self.pointer.clone(), sensitivity);
            return;
        }
        for part in self.parts(schema) {
            self.value(value, part, depth + 1);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let property = schema.get("properties").and_then(|known| known.get(name));
                    let of = property.or_else(|| schema.get("additionalProperties")).and_then(Value::as_object);
                    if let Some(of) = of {
                        self.inside(name, member, of, depth);
                    }
                }
            }
            Value::Array(items) => {
                let of_all = schema.get("items").and_then(Value::as_object);
                let of_first = schema.get("prefixItems").and_then(Value::as_array);
                for (index, item) in items.iter().enumerate() {
                    let own = of_first.and_then(|of_first| of_first.get(index)).and_then(Value::as_object);
                    if let Some(of) = own.or(of_all) {
                        self.inside(&index.to_string(), item, of, depth);
                    }
                }
            }
            _ => {}
        }
    }

    fn inside(&mut self, step: &str, value: &Value, schema: &'a Map<String, Value>, depth: usize) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        self.value(value, schema, depth + 1);
        self.pointer.truncate(length);
    }

    /// The other schemas that apply to the same value.
    fn parts(&self, schema: &'a Map<String, Value>) -> Vec<&'a Map<String, Value>> {
        let referenced = schema.get("$ref").and_then(Value::as_str).and_then(|reference| self.referenced(reference));
        let of_all = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        let of_all = of_all.flatten().filter_map(Value::as_object);
        let of_cases = ["then", "else"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
        referenced.into_iter().chain(of_all).chain(of_cases).collect()
    }

    fn referenced(&self, reference: &str) -> Option<&'a Map<String, Value>> {
        let mut steps = reference.strip_prefix("#/")?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        let first = self.root.get(&steps.next()?)?;
        steps.try_fold(first, |at, step| at.get(&step))?.as_object()
    }
}

/// How sensitive a value is by its schema; none if it may be shown.
fn sensitivity(schema: &Map<String, Value>) -> Option<String> {
    match schema.get("x-sensitivity") {
        Some(Value::String(level)) if level == "public" || level == "none" => None,
        Some(Value::String(level)) => Some(level.clone()),
        // A mark that is no word marks all the same.
        Some(_) => Some(SECRET.to_owned()),
        None => {
            let is_written = schema.get("writeOnly") == Some(&Value::Bool(true));
            let is_password = schema.get("format").and_then(Value::as_str) == Some("password");
            (is_written || is_password).then(|| SECRET.to_owned())
        }
    }
}
