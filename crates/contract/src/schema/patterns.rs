//! Bounds the time that patterns take, before the library compiles any of them. The library compiles a pattern again for every
//! class in it (`\w`, `\d`); two thousand classes took five seconds. So the weight of a pattern is its length times its
//! escapes.

use serde_json::{Value, json};

use super::SchemaError;

/// The most that one pattern may weigh. The heaviest of 6,804 real tools is 9,198.
const WEIGHT_MAX: usize = 20_000;
/// The most that all patterns of a schema may weigh. The heaviest of 6,804 real tools is 36,792.
const SUM_MAX: usize = 64_000;

/// Checks the patterns of a document. Data that looks like a pattern counts too, which is harmless.
pub(super) fn check(document: &Value) -> Result<(), SchemaError> {
    let mut sum: usize = 0;
    let mut rest = vec![document];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(members) => {
                let named = members.get("patternProperties").and_then(Value::as_object);
                let named = named.into_iter().flat_map(|named| named.keys().map(String::as_str));
                for pattern in members.get("pattern").and_then(Value::as_str).into_iter().chain(named) {
                    sum = sum.saturating_add(weight(pattern));
                    if weight(pattern) > WEIGHT_MAX || sum > SUM_MAX {
                        return Err(SchemaError::Patterns);
                    }
                }
                rest.extend(members.values());
            }
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a value is a valid pattern, which `format: regex` requires. Callers send these patterns, so they have the same
/// bounds as a schema's own.
pub(super) fn is_pattern(text: &str) -> bool {
    let options = jsonschema::options()
        .offline()
        .with_pattern_options(jsonschema::PatternOptions::regex().size_limit(super::PATTERN_BYTES_MAX));
    weight(text) <= WEIGHT_MAX && options.build(&json!({ "pattern": text })).is_ok()
}

fn weight(pattern: &str) -> usize {
    let escapes = pattern.bytes().filter(|byte| *byte == b'\\').count();
    pattern.len().saturating_mul(escapes + 1)
}
