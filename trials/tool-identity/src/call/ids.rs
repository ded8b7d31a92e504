//! The id of a call, and where it stands in a payload. An id that is no text is no id: nothing is ever turned into one.

use serde_json::Value;

/// The id of one call. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(String);

impl CallId {
    /// The text, unless it is empty.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then_some(Self(text))
    }

    /// The text of a member, unless it is missing, empty or no text.
    pub fn read(member: Option<&Value>) -> Option<Self> {
        Self::new(member?.as_str()?)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id in a payload: `call_id`, or `id` where that says nothing. May be empty.
///
/// A `call_id` that says something else than a text says that it is no text: `id` is not asked then.
pub fn id_of_payload(payload: &Value) -> Option<&str> {
    let said = payload.get("call_id").filter(|id| says_something(id));
    said.or_else(|| payload.get("id"))?.as_str()
}

/// What an item wraps, or the item itself.
pub(super) fn raw_item(item: &Value) -> &Value {
    item.get("raw_item").filter(|raw| !raw.is_null()).unwrap_or(item)
}

/// Null, the empty text, zero, false and what has no members say nothing.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
