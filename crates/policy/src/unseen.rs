//! The parts of a tool's arguments that policies cannot see. To a policy such an argument is absent.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::context_needs::ArgumentAccess;

/// How deep references are followed.
const DEPTH_MAX: usize = 16;
/// A part of a tool's arguments that policies cannot see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnseenArgument {
    /// The path to it from the arguments; `*` stands for every item.
    pub path: Vec<String>,
    /// Why it is not seen.
    pub reason: String,
    pub part: UnseenPart,
}

/// Which part is not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnseenPart {
    /// All of it.
    Whole,
    /// Members that other keywords declare, except those that the object itself names: `names`, or any name if that is `None`.
    Others { names: Option<BTreeSet<String>>, but_for: BTreeSet<String> },
    /// Nothing of interest: it is always null, which counts as absent.
    Nothing,
}

impl UnseenArgument {
    pub(crate) fn is_accessed(&self, look: &ArgumentAccess) -> bool {
        let inside = look.value && self.path.starts_with(&look.path);
        match &self.part {
            UnseenPart::Nothing => false,
            UnseenPart::Whole => inside || look.path.starts_with(&self.path),
            UnseenPart::Others { names, but_for } => {
                let member = look.path.strip_prefix(self.path.as_slice()).and_then(<[String]>::first);
                let may_be = |name: &String| names.as_ref().is_none_or(|names| names.contains(name));
                let some = names.as_ref().is_none_or(|names| !names.is_subset(but_for));
                member.map_or(inside && some, |member| may_be(member) && !but_for.contains(member))
            }
        }
    }
}

/// Members that keywords beside `properties` declare for the same object; `None` if that cannot be determined.
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
