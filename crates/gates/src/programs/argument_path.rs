//! Where an argument is among the arguments of a call: by member names, and in every item of an array.

use serde_json::Value;

use super::keyword;

/// A path, from the outermost member inwards.
#[derive(Debug, Clone, Default)]
pub(super) struct ArgumentPath(Vec<ArgumentPathSegment>);

/// One step inwards.
#[derive(Debug, Clone)]
pub(super) enum ArgumentPathSegment {
    Member(String),
    Each,
}

impl ArgumentPath {
    /// How many steps it goes into the arguments.
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(super) fn steps(&self) -> &[ArgumentPathSegment] {
        &self.0
    }

    pub(super) fn push(&mut self, step: ArgumentPathSegment) {
        self.0.push(step);
    }

    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Calls `see` for every value at this path, with its JSON Pointer; with none if the value, or the object
    /// or array around it, is missing or empty. If the value around it has another type, `see` gets that value
    /// instead.
    pub(super) fn visit(&self, arguments: &Value, see: &mut dyn FnMut(&str, Option<&Value>)) {
        visit(&self.0, Some(arguments), &mut String::new(), see);
    }

    /// As a person reads it: `steps[].sql`.
    pub(super) fn named(&self) -> String {
        let mut name = String::new();
        for step in &self.0 {
            match step {
                ArgumentPathSegment::Member(member) if name.is_empty() => name.push_str(member),
                ArgumentPathSegment::Member(member) => name.extend([".", member]),
                ArgumentPathSegment::Each => name.push_str("[]"),
            }
        }
        name
    }

    /// Its JSON Pointer, as far as it does not depend on the value.
    pub(super) fn pointer(&self) -> String {
        let members = self.0.iter().map_while(|step| match step {
            ArgumentPathSegment::Member(name) => Some(format!("/{}", name.replace('~', "~0").replace('/', "~1"))),
            ArgumentPathSegment::Each => None,
        });
        members.collect()
    }

    /// The place of its schema in the input schema: `.properties.steps.items`.
    pub(super) fn dotted(&self) -> String {
        let name = |step: &ArgumentPathSegment| match step {
            ArgumentPathSegment::Member(name) => format!(".properties.{}", keyword::step_name(name)),
            ArgumentPathSegment::Each => ".items".to_owned(),
        };
        self.0.iter().map(name).collect()
    }
}

fn visit(
    place: &[ArgumentPathSegment],
    value: Option<&Value>,
    pointer: &mut String,
    see: &mut dyn FnMut(&str, Option<&Value>),
) {
    let (whole, Some((step, rest))) = (pointer.len(), place.split_first()) else { return see(pointer, value) };
    match (step, value) {
        (_, None | Some(Value::Null)) => see(pointer, None),
        (ArgumentPathSegment::Member(name), Some(value @ Value::Object(_))) => {
            pointer.push('/');
            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            visit(rest, value.get(name), pointer, see);
        }
        (ArgumentPathSegment::Each, Some(Value::Array(items))) if items.is_empty() => see(pointer, None),
        (ArgumentPathSegment::Each, Some(Value::Array(items))) => {
            for (number, item) in items.iter().enumerate() {
                pointer.truncate(whole);
                pointer.push('/');
                pointer.push_str(&number.to_string());
                visit(rest, Some(item), pointer, see);
            }
        }
        (_, other) => see(pointer, other),
    }
    pointer.truncate(whole);
}
