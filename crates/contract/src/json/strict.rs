//! Strict decoding: RFC 8259 JSON, and in addition no duplicate key, no integer that a double cannot hold exactly, no lone
//! surrogate, nothing deeper or longer than the limits.
//!
//! Measured on `serde_json` alone: it keeps the last of duplicate keys, and 9007199254740993 and …992 have the same canonical
//! form. Either way one approval would cover two payloads.

use std::fmt;

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::integers;

/// The deepest nesting that the library follows; a larger limit is lowered to this.
const DEPTH_MAX: usize = 127;

/// The limits of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Bytes of text.
    pub bytes_max: usize,
    /// Arrays and objects inside each other, 127 at most.
    pub depth_max: usize,
}

/// Why text is not strict JSON. Each variant has its own hint, because each is repaired differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StrictError {
    /// Not JSON at all.
    #[error("not JSON: {what} at line {line} column {column}")]
    Syntax {
        /// The parser's words, without the position.
        what: String,
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// JSON with bytes that are not UTF-8.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first bad byte.
        at: usize,
    },
    /// A byte order mark before the text.
    #[error("the text begins with a byte order mark")]
    ByteOrderMark,
    /// `NaN` or `Infinity`, which are not JSON.
    #[error("not JSON: `NaN` and `Infinity` are no numbers at line {line} column {column}")]
    NotANumber {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// `\ud800` without its partner.
    #[error("a `\\u` escape is half of a surrogate pair at line {line} column {column}")]
    LoneSurrogate {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// The same key twice in one object.
    #[error("the key `{key}` stands twice in the same object at line {line} column {column}")]
    DuplicateKey {
        /// The key, shortened.
        key: String,
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// An integer beyond ±(2^53 − 1).
    #[error("an integer is beyond ±9007199254740991 at byte {at}")]
    IntegerTooLarge {
        /// Offset of the number's first byte.
        at: usize,
    },
    /// A number no double can hold, such as 1e400.
    #[error("a number is out of range at line {line} column {column}")]
    NumberOutOfRange {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// Nested too deeply.
    #[error("nested deeper than {depth_max} levels")]
    TooDeep {
        /// The limit.
        depth_max: usize,
    },
    /// Too long.
    #[error("{bytes} bytes, more than the {bytes_max} allowed")]
    TooLarge {
        /// The length of the text.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

/// Decodes text strictly.
pub fn decode(text: &[u8], limits: JsonLimits) -> Result<Value, StrictError> {
    if text.len() > limits.bytes_max {
        return Err(StrictError::TooLarge { bytes: text.len(), bytes_max: limits.bytes_max });
    }
    let text = std::str::from_utf8(text).map_err(|error| StrictError::NotUtf8 { at: error.valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        return Err(StrictError::ByteOrderMark);
    }
    let depth_max = limits.depth_max.min(DEPTH_MAX);
    let mut reader = StrictReader { depth_max, suspicious: false, duplicate: None };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = StrictSeed { reader: &mut reader, depth: 0 }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| name_error(&error, &reader, text))?;
    // Only the text tells an integer that lost digits from a float that never had them (1E30).
    if reader.suspicious
        && let Some(at) = integers::first_inexact(text.as_bytes())
    {
        return Err(StrictError::IntegerTooLarge { at });
    }
    Ok(value)
}

impl StrictError {
    /// What the caller should do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "send one JSON object (RFC 8259): double quotes, no comments, no trailing comma",
            Self::NotUtf8 { .. } => "encode the arguments as UTF-8",
            Self::ByteOrderMark => "send the text without a byte order mark; JSON begins with its first character",
            Self::NotANumber { .. } => "leave the field out, or send null or a string if the contract allows it",
            Self::LoneSurrogate { .. } => "write the character itself, or both halves of its surrogate pair",
            Self::DuplicateKey { .. } => "keep one of the two; readers disagree on which one would count",
            Self::IntegerTooLarge { .. } => "send it as a string; integers beyond 2^53-1 lose digits on the way",
            Self::NumberOutOfRange { .. } => "send a number that fits a double, or a string",
            Self::TooDeep { .. } => "send a flatter value",
            Self::TooLarge { .. } => "send less, or pass a reference instead of the content",
        }
    }
}

struct StrictReader {
    depth_max: usize,
    /// True after a number that may be an integer beyond what a double holds.
    suspicious: bool,
    /// The duplicate key. Kept here because the library's error is one text, which a key could imitate.
    duplicate: Option<String>,
}

/// Carries the reader down through nested values.
struct StrictSeed<'a> {
    reader: &'a mut StrictReader,
    depth: usize,
}

/// Characters of a key that errors repeat.
const KEY_CHARS_SHOWN: usize = 64;
// `name_error` recognises our own errors by this text, because the library has a single error type.
const DUPLICATE_KEY: &str = "duplicate key";
const TOO_DEEP: &str = "deeper than allowed";

impl<'de> DeserializeSeed<'de> for StrictSeed<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        self.reader.suspicious |= integers::is_inexact(value.unsigned_abs());
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        self.reader.suspicious |= integers::is_inexact(value);
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        self.reader.suspicious |= integers::may_be_inexact(value);
        // 1.0 and 1 are one JSON number with one canonical form, so they are one value here too.
        if let Some(integer) = integers::exact(value) {
            return Ok(Value::Number(integer.into()));
        }
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(StrictSeed { reader: self.reader, depth })? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let depth = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                self.reader.duplicate = Some(key.chars().take(KEY_CHARS_SHOWN).collect());
                return Err(de::Error::custom(DUPLICATE_KEY));
            }
            let member = members.next_value_seed(StrictSeed { reader: self.reader, depth })?;
            object.insert(key, member);
        }
        Ok(Value::Object(object))
    }
}

impl StrictSeed<'_> {
    fn deeper<E: de::Error>(&self) -> Result<usize, E> {
        if self.depth >= self.reader.depth_max {
            return Err(E::custom(TOO_DEEP));
        }
        Ok(self.depth + 1)
    }
}

fn name_error(error: &serde_json::Error, reader: &StrictReader, text: &str) -> StrictError {
    let (line, column) = (error.line(), error.column());
    if let Some(key) = &reader.duplicate {
        return StrictError::DuplicateKey { key: key.clone(), line, column };
    }
    let described = error.to_string();
    let what = described.split(" at line ").next().unwrap_or(&described);
    match what {
        TOO_DEEP | "recursion limit exceeded" => StrictError::TooDeep { depth_max: reader.depth_max },
        "number out of range" => StrictError::NumberOutOfRange { line, column },
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            StrictError::LoneSurrogate { line, column }
        }
        "expected value" | "invalid number" if names_no_number(text, line, column) => {
            StrictError::NotANumber { line, column }
        }
        _ => StrictError::Syntax { what: what.to_owned(), line, column },
    }
}

/// Whether the parser stopped at `NaN` or `Infinity`, with a sign or without.
fn names_no_number(text: &str, line: usize, column: usize) -> bool {
    let rest = text.lines().nth(line.saturating_sub(1)).and_then(|line| line.get(column.saturating_sub(1)..));
    rest.is_some_and(|rest| ["NaN", "Infinity"].iter().any(|word| rest.trim_start_matches('-').starts_with(word)))
}
