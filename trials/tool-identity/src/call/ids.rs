//! The id of a call, and its place in a payload. A value that is not a text is not an id: nothing is ever converted into one.

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

    /// The text of a member; `None` if it is missing, empty or not a text.
    pub fn read(member: Option<&Value>) -> Option<Self> {
        Self::new(member?.as_str()?)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The id in a payload: `call_id`, or `id` if `call_id` is empty or absent. May be empty.
///
/// If `call_id` is a value other than a text, there is no id: `id` is not read then.
pub fn id_of_payload(payload: &Value) -> Option<&str> {
    let said = payload.get("call_id").filter(|id| says_something(id));
    said.or_else(|| payload.get("id"))?.as_str()
}

/// What an item wraps, or the item itself.
pub(super) fn raw_item(item: &Value) -> &Value {
    item.get("raw_item").filter(|raw| !raw.is_null()).unwrap_or(item)
}

/// Null, the empty text, zero, false and empty containers count as absent.
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
