//! A contract as YAML with a comment behind each value that says where it comes from. It reads back as the same contract.

use serde_json::{Map, Value, json};
use servanda_contract::layers::{Layer, ValueOrigins};

/// The text.
pub(super) fn page(contract: &Value, origins: Option<&ValueOrigins>, place: &dyn Fn(Layer) -> String) -> String {
    let mut page = ContractPage { text: String::new(), origins, place };
    if let Value::Object(members) = contract {
        page.members(members, "", 0);
    }
    page.text
}

struct ContractPage<'a> {
    text: String,
    origins: Option<&'a ValueOrigins>,
    place: &'a dyn Fn(Layer) -> String,
}

impl ContractPage<'_> {
    fn members(&mut self, members: &Map<String, Value>, above: &str, depth: usize) {
        for (name, value) in members {
            let pointer = format!("{above}/{}", name.replace('~', "~0").replace('/', "~1"));
            let key = format!("{}{}:", "  ".repeat(depth), key(name));
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    // If one layer set a whole section, one comment is enough.
                    let sole = self.origins.and_then(|origins| origins.sole(&pointer)).filter(|_| depth > 0);
                    self.line(&key, sole);
                    let origins = if sole.is_some() { None } else { self.origins };
                    let before = std::mem::replace(&mut self.origins, origins);
                    self.members(inner, &pointer, depth + 1);
                    self.origins = before;
                }
                value => {
                    let layer = self.origins.and_then(|origins| origins.at(&pointer));
                    self.line(&format!("{key} {}", one_line(value)), layer);
                }
            }
        }
    }

    fn line(&mut self, text: &str, layer: Option<Layer>) {
        self.text.push_str(text);
        if let Some(layer) = layer {
            self.text.push_str("  # ");
            self.text.push_str(&(self.place)(layer));
        }
        self.text.push('\n');
    }
}

/// Writes a value on one line as YAML: JSON, or a word without quotes if it needs none.
fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        other => json!(other).to_string(),
    }
}

fn key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { json!(name).to_string() }
}

/// Whether YAML reads a word as text: it begins with a letter and has no special meaning.
fn is_plain(text: &str) -> bool {
    let own = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || "_-.|".contains(it))
        && !own.contains(&text.to_lowercase().as_str())
}
