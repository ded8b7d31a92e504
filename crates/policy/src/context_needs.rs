//! What a policy reads, determined from its syntax. Only that is passed to it, and what it does not read cannot change its
//! result. Any use of the context that is not plainly an attribute counts as reading all of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// What some policies read from the context of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContextNeeds {
    /// The context as a whole, or in a way that this analysis does not understand.
    pub whole: bool,
    /// Attributes other than `args`.
    pub attributes: BTreeSet<String>,
    /// Members of `args`.
    pub arguments: BTreeSet<String>,
    /// `args` as a whole.
    pub all_arguments: bool,
    /// Something that only a call has, not a list.
    pub beyond_list: bool,
}

/// The combined needs of several sets of policies.
#[derive(Debug)]
pub(crate) struct CombinedNeeds<'a>(Vec<&'a ContextNeeds>);

/// A place in the arguments that a policy reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentAccess {
    /// The path to it from the arguments.
    pub path: Vec<String>,
    /// True if it reads the value; false if it only asks whether there is one.
    pub value: bool,
}

/// One condition that must hold: a part of `when { … && … }`, or an `unless`.
#[derive(Debug, Clone)]
pub(crate) struct PolicyCondition {
    kind: &'static str,
    body: Value,
}

impl ContextNeeds {
    pub(crate) fn from_expression(expression: &Value) -> Self {
        let mut needs = Self::default();
        needs.look(expression);
        needs
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.whole |= other.whole;
        self.all_arguments |= other.all_arguments;
        self.beyond_list |= other.beyond_list;
        self.attributes.extend(other.attributes.iter().cloned());
        self.arguments.extend(other.arguments.iter().cloned());
    }

    /// Whether any argument is read.
    pub(crate) fn any_argument(&self) -> bool {
        self.whole || self.all_arguments || !self.arguments.is_empty()
    }

    /// The same needs without arguments.
    pub(crate) fn without_arguments(&self) -> Self {
        let mut attributes = self.attributes.clone();
        if self.whole {
            attributes.extend(["env", "tenant", "client", "task", "intent", "question"].map(str::to_owned));
        }
        Self { attributes, ..Self::default() }
    }

    fn look(&mut self, expression: &Value) {
        if let Some(path) = context_path(expression) {
            self.note(&path);
            return;
        }
        match expression {
            Value::Object(members) => members.values().for_each(|inner| self.look(inner)),
            Value::Array(items) => items.iter().for_each(|inner| self.look(inner)),
            _ => {}
        }
    }

    fn note(&mut self, path: &[&str]) {
        match path {
            [] => (self.whole, self.beyond_list) = (true, true),
            ["args"] => (self.all_arguments, self.beyond_list) = (true, true),
            ["args", argument, ..] => {
                self.arguments.insert((*argument).to_owned());
                self.beyond_list = true;
            }
            [attribute, ..] => {
                self.attributes.insert((*attribute).to_owned());
                self.beyond_list |= !matches!(path, ["tenant" | "client"] | ["env", "name"]);
            }
        }
    }
}

impl<'a> FromIterator<&'a ContextNeeds> for CombinedNeeds<'a> {
    fn from_iter<I: IntoIterator<Item = &'a ContextNeeds>>(needs: I) -> Self {
        Self(needs.into_iter().filter(|needs| **needs != ContextNeeds::default()).collect())
    }
}

impl CombinedNeeds<'_> {
    pub(crate) fn attribute(&self, name: &str) -> bool {
        self.0.iter().any(|needs| needs.whole || needs.attributes.contains(name))
    }

    pub(crate) fn any_argument(&self) -> bool {
        self.0.iter().any(|needs| needs.any_argument())
    }

    pub(crate) fn argument(&self, name: &str) -> bool {
        self.0.iter().any(|needs| needs.whole || needs.all_arguments || needs.arguments.contains(name))
    }
}

/// The conditions of a policy in order of evaluation.
pub(crate) fn conjuncts(policy: &Value) -> Vec<PolicyCondition> {
    let mut found = Vec::new();
    for condition in policy.get("conditions").and_then(Value::as_array).into_iter().flatten() {
        let body = condition.get("body").cloned().unwrap_or_default();
        if condition.get("kind").and_then(Value::as_str) == Some("when") {
            split(body, &mut found);
        } else {
            found.push(PolicyCondition { kind: "unless", body });
        }
    }
    found
}

/// The policy with other conditions and the effect `permit`, for asking whether they hold.
pub(crate) fn with_conjuncts(policy: &Value, conjuncts: &[PolicyCondition]) -> Value {
    let conditions: Vec<Value> =
        conjuncts.iter().map(|conjunct| json!({ "kind": conjunct.kind, "body": conjunct.body })).collect();
    let mut asked = policy.clone();
    if let Some(members) = asked.as_object_mut() {
        members.insert("effect".to_owned(), json!("permit"));
        members.insert("conditions".to_owned(), Value::Array(conditions));
    }
    asked
}

impl PolicyCondition {
    pub(crate) const fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn needs(&self) -> ContextNeeds {
        ContextNeeds::from_expression(&self.body)
    }

    /// Every place in the arguments that it reads.
    pub(crate) fn argument_accesses(&self) -> Vec<ArgumentAccess> {
        let mut found = Vec::new();
        look(&self.body, true, &mut found);
        found
    }
}

fn look(expression: &Value, value: bool, into: &mut Vec<ArgumentAccess>) {
    if let Some(path) = context_path(expression) {
        let value = value && expression.get("has").is_none();
        match path.as_slice() {
            // Whether there are arguments at all reads none of them.
            [] | ["args"] if !value => {}
            [] => into.push(ArgumentAccess { path: Vec::new(), value }),
            ["args", path @ ..] => {
                into.push(ArgumentAccess { path: path.iter().map(|step| (*step).to_owned()).collect(), value });
            }
            _ => {}
        }
        return;
    }
    match expression {
        Value::Object(members) => {
            for (operator, inner) in members {
                // Whether a set is empty does not depend on its items.
                match inner.get("arg").filter(|_| operator == "isEmpty") {
                    Some(set) => look(set, false, into),
                    None => look(inner, true, into),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|inner| look(inner, true, into)),
        _ => {}
    }
}

fn split(body: Value, into: &mut Vec<PolicyCondition>) {
    // A chain nests to the left and may be long, so the loop walks it without recursion.
    let (mut rest, mut later) = (body, Vec::new());
    while let Some(both) = rest.get_mut("&&").map(Value::take) {
        let Value::Object(mut both) = both else { return };
        later.push(both.remove("right").unwrap_or_default());
        rest = both.remove("left").unwrap_or_default();
    }
    into.push(PolicyCondition { kind: "when", body: rest });
    for body in later.into_iter().rev() {
        if body.get("&&").is_some() {
            split(body, into);
        } else {
            into.push(PolicyCondition { kind: "when", body });
        }
    }
}

/// The attributes that lead from `context` to this expression; `None` if it is anything else.
fn context_path(expression: &Value) -> Option<Vec<&str>> {
    let mut path = Vec::new();
    let mut at = expression;
    loop {
        if at.get("Var").and_then(Value::as_str) == Some("context") {
            path.reverse();
            return Some(path);
        }
        let step = at.get(".").or_else(|| at.get("has"))?;
        path.push(step.get("attr").and_then(Value::as_str)?);
        at = step.get("left")?;
    }
}
