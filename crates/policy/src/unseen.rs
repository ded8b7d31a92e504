//! What of a tool's arguments policies cannot see, and whether a policy looks at it. To a policy such an argument is absent, so one
//! that asks for it would pass over exactly the calls it was written for: it is not loaded.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    findings::{Finding, FindingKind},
    load::{Loaded, Source},
    mentions::Look,
    vocabulary::{Tool, Vocabulary},
};

/// References that are followed in one another.
const DEPTH_MAX: usize = 16;
/// Tools that a finding names.
const TOOLS_SHOWN_MAX: usize = 3;

/// A part of a tool's arguments that policies cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// The way to it from the arguments; `*` stands for every item.
    pub path: Vec<String>,
    /// Why it is not seen.
    pub reason: String,
    pub part: Part,
}

/// What is not seen there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// Members that other keywords declare: these, or whichever if nothing is said, but for those that the object names itself.
    Others { names: Option<BTreeSet<String>>, but_for: BTreeSet<String> },
    /// Nothing that anybody misses: it is always null, which counts as absent.
    Nothing,
}

impl Unseen {
    fn is_looked_at(&self, look: &Look) -> bool {
        let inside = look.value && self.path.starts_with(&look.path);
        match &self.part {
            Part::Nothing => false,
            Part::Whole => inside || look.path.starts_with(&self.path),
            Part::Others { names, but_for } => {
                let member = look.path.strip_prefix(self.path.as_slice()).and_then(<[String]>::first);
                let may_be = |name: &String| names.as_ref().is_none_or(|names| names.contains(name));
                let some = names.as_ref().is_none_or(|names| !names.is_subset(but_for));
                member.map_or(inside && some, |member| may_be(member) && !but_for.contains(member))
            }
        }
    }
}

/// Members that keywords beside `properties` declare for the same object; none where it cannot be told which.
pub(crate) fn declared(root: &Value, schema: &Value) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    declare(root, schema, DEPTH_MAX, &mut names)?;
    Some(names)
}

fn declare(root: &Value, schema: &Value, depth_left: usize, names: &mut BTreeSet<String>) -> Option<()> {
    let Value::Object(members) = schema else { return Some(()) };
    let depth_left = depth_left.checked_sub(1)?;
    let mut inner: Vec<&Value> = Vec::new();
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => names.extend(properties.keys().cloned()),
            ("patternProperties", _) => return None,
            ("additionalProperties" | "unevaluatedProperties", value) if *value != Value::Bool(false) => return None,
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => inner.extend(schemas),
            ("dependentSchemas", Value::Object(schemas)) => inner.extend(schemas.values()),
            ("if" | "then" | "else", schema) => inner.push(schema),
            ("$ref", Value::String(reference)) => inner.push(root.pointer(reference.strip_prefix('#')?)?),
            _ => {}
        }
    }
    inner.into_iter().try_for_each(|schema| declare(root, schema, depth_left, names))
}

/// Every place at which a policy looks at what it cannot see of a tool that it is about.
pub(crate) fn findings(vocabulary: &Vocabulary, policy: &Loaded, sources: &[Source<'_>]) -> Vec<Finding> {
    if policy.looks.is_empty() {
        return Vec::new();
    }
    let mut found: BTreeMap<&[String], Vec<(&str, &Unseen)>> = BTreeMap::new();
    let covered = |(name, tool): &(&String, &Tool)| policy.place.covers(name, tool);
    for (name, tool) in vocabulary.tools().iter().filter(covered) {
        for look in &policy.looks {
            let unseen = tool.facts.parameters().unseen.iter().find(|unseen| unseen.is_looked_at(look));
            found.entry(&look.path).or_default().extend(unseen.map(|unseen| (name.as_str(), unseen)));
        }
    }
    found.retain(|_, tools| !tools.is_empty());
    found.into_iter().map(|(path, tools)| finding(policy, path, &tools, sources)).collect()
}

fn finding(policy: &Loaded, path: &[String], tools: &[(&str, &Unseen)], sources: &[Source<'_>]) -> Finding {
    let reason = tools.first().map_or("", |(_, unseen)| unseen.reason.as_str());
    let mut names: Vec<String> = tools.iter().map(|(name, _)| format!("`{name}`")).collect();
    names.dedup();
    let more = names.len().saturating_sub(TOOLS_SHOWN_MAX);
    names.truncate(TOOLS_SHOWN_MAX);
    let names = names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() };
    let looked = [&["context.args".to_owned()], path].concat().join(".");
    let message = format!("it looks at `{looked}`, and policies cannot see that of {names}: {reason}");
    let hint = "name the tools it is about, `action in [Action::\"call:...\"]`, and decide about the others without that argument; \
                or give it one type in the contract";
    // Cedar's JSON has no places; where the name first stands is near enough.
    let offset = path.last().and_then(|step| policy.text.find(step.as_str())).unwrap_or_default();
    Finding { hint: Some(hint.to_owned()), ..policy.finding(sources, offset, FindingKind::Type, message) }
}
