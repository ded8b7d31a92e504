//! The arguments of a call, decoded strictly, because a real server validates its own input; it does not trust a
//! gateway to have done so.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::failure::SampleToolFailure;

pub(crate) type Arguments = Map<String, Value>;

/// Parses arguments into the tool's own type and refuses unknown members.
pub(crate) fn decode<T: DeserializeOwned>(arguments: Arguments) -> Result<T, SampleToolFailure> {
    Ok(serde_json::from_value(Value::Object(arguments))?)
}

/// Refuses a value that is not in the schema's list.
pub(crate) fn check_one_of(name: &str, value: &str, allowed: &[&str]) -> Result<(), SampleToolFailure> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let text = format!("`{name}` must be one of {}", allowed.join(", "));
    Err(SampleToolFailure::declined(text))
}

/// Refuses a number outside the range the schema names.
pub(crate) fn check_between<T>(name: &str, value: T, min: T, max: T) -> Result<(), SampleToolFailure>
where
    T: PartialOrd + Display + Copy,
{
    if min <= value && value <= max {
        return Ok(());
    }
    let text = format!("`{name}` must be between {min} and {max}");
    Err(SampleToolFailure::declined(text))
}

/// Refuses a text that is empty or has more characters than the schema allows.
pub(crate) fn check_length(name: &str, text: &str, length_max: usize) -> Result<(), SampleToolFailure> {
    check_between(&format!("length of {name}"), text.chars().count(), 1, length_max)
}
