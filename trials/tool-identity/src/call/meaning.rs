//! What a JSON text means, so that two can be compared: blanks and the order of members do not matter, everything else does.
//!
//! Whole numbers are compared digit by digit. A decoder that turns long ones into floats would treat two account numbers as
//! equal.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

/// What a text means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Not JSON: the text itself.
    Text(String),
    Null,
    Boolean(bool),
    /// A number without fraction and exponent, by its digits.
    Whole(String),
    /// Any other number, by the bits of its nearest float.
    Float(u64),
    String(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Meaning {
    pub(super) fn of_text(text: &str) -> Self {
        // The decoder refuses text that is nested too deeply, so the recursion below is bounded.
        let decoded = serde_json::from_str::<Value>(text).ok();
        let read = decoded.and_then(|_| serde_json::from_str::<&RawValue>(text).ok()).and_then(Self::read);
        read.unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// The meaning of a decoded value.
    pub(super) fn of_value(value: &Value) -> Self {
        Self::of_text(&value.to_string())
    }

    fn read(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        Some(match text.as_bytes().first()? {
            b'{' => {
                let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
                let read = members.into_iter().map(|(name, member)| Some((name, Self::read(member)?)));
                Self::Object(read.collect::<Option<_>>()?)
            }
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::List(items.into_iter().map(Self::read).collect::<Option<_>>()?)
            }
            b'"' => Self::String(serde_json::from_str(text).ok()?),
            b't' | b'f' => Self::Boolean(text == "true"),
            b'n' => Self::Null,
            _ if text == "-0" => Self::Whole("0".to_owned()),
            _ if !text.contains(['.', 'e', 'E']) => Self::Whole(text.to_owned()),
            _ => Self::Float(text.parse::<f64>().ok().filter(|number| number.is_finite())?.to_bits()),
        })
    }
}
