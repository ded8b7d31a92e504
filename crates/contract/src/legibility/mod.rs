//! Whether text reads as what it is. A model reads every code point of a description, a person sees only the visible ones. Text
//! that the model reads and the reviewer does not see is how a tool gets poisoned.
//!
//! Deliberately not here: what the text *says*. A reviewer judges instructions in plain sight, and pins make sure that there is
//! a review.

mod characters;
mod names;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, fmt};

use serde_json::Value;

pub use characters::HiddenCharacter;
pub use names::{NameFault, name_fault, skeleton};

/// How many faults of one document are reported; more would bury the first ones.
const FAULTS_MAX: usize = 20;

/// How many hidden characters of one text are reported.
const TOLD_MAX: usize = 5;

/// Text in a document that does not read as what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegibilityFault {
    /// JSON Pointer to the text, or to the member whose name it is. Invisible characters are written as in [`reveal`].
    pub pointer: String,
    /// What is wrong, in words.
    pub reason: String,
}

/// The invisible characters of a text, in order.
pub fn hidden_characters(text: &str) -> Vec<HiddenCharacter> {
    characters::find(text).collect()
}

/// The text with every invisible character written as its code point: `<U+200B>`.
pub fn reveal(text: &str) -> Cow<'_, str> {
    let mut found = characters::find(text).peekable();
    if found.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for (position, character) in text.chars().enumerate() {
        if found.next_if(|hidden| hidden.position == position).is_some() {
            shown.extend(["<", &code_point(character), ">"]);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// The same, and no two texts look the same: where a text itself has what a code point is written as, its `<` is written as one, and so is
/// every carriage return, which a page shows as the line feed after it.
pub fn reveal_exactly(text: &str) -> Cow<'_, str> {
    if !has_spelled_out(text) && !text.contains('\r') {
        return reveal(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = spelled_out_at(rest) {
        let (before, after) = rest.split_at(at);
        shown.push_str(before);
        shown.extend(["<", &code_point('<'), ">"]);
        rest = after.strip_prefix('<').unwrap_or_default();
    }
    shown.push_str(rest);
    // What was inserted is visible, and no `<` and no carriage return excuses an invisible neighbour.
    let returns = format!("<{}>", code_point('\r'));
    Cow::Owned(reveal(&shown.replace('\r', &returns)).into_owned())
}

/// Whether a text itself has what a code point is written as.
pub fn has_spelled_out(text: &str) -> bool {
    spelled_out_at(text).is_some()
}

/// Where the first one begins: `<U+`, hex digits, `>`.
fn spelled_out_at(text: &str) -> Option<usize> {
    let begins = |(at, start): (usize, &str)| {
        let rest = text.get(at + start.len()..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        (digits > 0 && rest.get(digits..)?.starts_with('>')).then_some(at)
    };
    text.match_indices("<U+").find_map(begins)
}

/// The same on one line: line ends and tabs become blanks.
pub fn one_line(text: &str) -> String {
    reveal(&text.replace(['\n', '\t'], " ")).into_owned()
}

/// Everything in a JSON document that does not read as what it is: texts and member names with hidden characters, and property
/// names of a schema that mix scripts. Reports at most twenty faults.
pub fn faults(document: &Value) -> Vec<LegibilityFault> {
    let mut search = LegibilitySearch { pointer: String::new(), found: Vec::new() };
    search.value(document, false);
    search.found
}

struct LegibilitySearch {
    pointer: String,
    found: Vec<LegibilityFault>,
}

impl LegibilitySearch {
    /// `names_below`: the member names are property names, which a model has to write.
    fn value(&mut self, value: &Value, names_below: bool) {
        if self.found.len() >= FAULTS_MAX {
            return;
        }
        match value {
            Value::String(text) => {
                if let Some(reason) = describe_hidden(&hidden_characters(text)) {
                    self.add(reason);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.inside(&index.to_string(), |search| search.value(item, false));
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.inside(name, |search| {
                        search.name(name, names_below);
                        search.value(member, name == "properties");
                    });
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn name(&mut self, name: &str, is_property: bool) {
        let reason = if is_property {
            name_fault(name).map(|fault| format!("the name {fault}"))
        } else {
            describe_hidden(&hidden_characters(name)).map(|reason| format!("the name {reason}"))
        };
        if let Some(reason) = reason {
            self.add(reason);
        }
    }

    fn inside(&mut self, step: &str, look: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        look(self);
        self.pointer.truncate(length);
    }

    fn add(&mut self, reason: String) {
        if self.found.len() < FAULTS_MAX {
            self.found.push(LegibilityFault { pointer: reveal(&self.pointer).into_owned(), reason });
        }
    }
}

/// `has U+200B (zero width) as character 5`; `None` if nothing is hidden.
fn describe_hidden(hidden: &[HiddenCharacter]) -> Option<String> {
    let shown: Vec<String> = hidden.iter().take(TOLD_MAX).map(HiddenCharacter::to_string).collect();
    let more = hidden.len().saturating_sub(TOLD_MAX);
    match (shown.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("has {}", shown.join(", "))),
        (false, more) => Some(format!("has {} and {more} more", shown.join(", "))),
    }
}

fn code_point(character: char) -> String {
    format!("U+{:04X}", u32::from(character))
}

impl fmt::Display for LegibilityFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`: {}", self.pointer, self.reason)
    }
}
