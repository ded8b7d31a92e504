//! What a JSON text means, so that two can be compared: blanks and the order of members do not matter, everything else does.
//!
//! Whole numbers are compared digit by digit. A decoder that makes floats of the long ones would take two account numbers for one.

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
    /// Any other number, by the bits of what it is nearest to.
    Float(u64),
    String(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

impl Meaning {
    pub(super) fn of_text(text: &str) -> Self {
        // Refuses what is nested too deep, so that reading it again, level by level, cannot be.
        let decoded = serde_json::from_str::<Value>(text).ok();
        let read = decoded.and_then(|_| serde_json::from_str::<&RawValue>(text).ok()).and_then(Self::read);
        read.unwrap_or_else(|| Self::Text(text.to_owned()))
    }

    /// Of a value that was decoded by others.
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
