//! Canonical bytes by RFC 8785. Only this module creates them, so the type proves their form.
//!
//! The writer walks a decoded tree once and appends to one buffer, because every call is canonicalised. Its tests compare it with
//! `serde_json_canonicalizer`, which is another implementation of the same RFC.

use std::cmp::Ordering;

use bytes::Bytes;
use serde::ser::Error as _;
use serde_json::{Error, Map, Number, Value};

/// The largest integer up to which a double holds every integer.
const EXACT_INTEGER_MAX: u64 = 1 << 53;
/// Enough for the arguments of most calls.
const BYTES_EXPECTED: usize = 128;

/// The RFC 8785 form of a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanonicalBytes(Bytes);

/// Serialises a decoded value in its one canonical form.
///
/// A `Value` holds only finite numbers and string keys, so nothing in it can fail to serialise. If the library ever disagrees,
/// the error is returned, not hidden.
pub fn canonicalize(value: &Value) -> Result<CanonicalBytes, Error> {
    let mut bytes = Vec::with_capacity(BYTES_EXPECTED);
    write_value(value, &mut bytes)?;
    Ok(CanonicalBytes(bytes.into()))
}

impl CanonicalBytes {
    /// The bytes, cheap to share.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(number, out)?,
        Value::String(text) => write_string(text, out)?,
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                separate(index, out);
                write_value(item, out)?;
            }
            out.push(b']');
        }
        Value::Object(members) => write_object(members, out)?,
    }
    Ok(())
}

fn write_object(members: &Map<String, Value>, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'{');
    if members.keys().is_sorted_by(|one, other| by_utf16(one, other).is_lt()) {
        write_members(members.iter(), out)?;
    } else {
        let mut sorted: Vec<_> = members.iter().collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| by_utf16(one, other));
        write_members(sorted.into_iter(), out)?;
    }
    out.push(b'}');
    Ok(())
}

fn write_members<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>, out: &mut Vec<u8>) -> Result<(), Error> {
    for (index, (name, value)) in members.enumerate() {
        separate(index, out);
        write_string(name, out)?;
        out.push(b':');
        write_value(value, out)?;
    }
    Ok(())
}

fn separate(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

/// The RFC sorts names by UTF-16 code units, which differs from the order of UTF-8 bytes above U+FFFF.
fn by_utf16(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() { one.cmp(other) } else { one.encode_utf16().cmp(other.encode_utf16()) }
}

/// `serde_json` escapes exactly what the RFC asks for, in the same form.
fn write_string(text: &str, out: &mut Vec<u8>) -> Result<(), Error> {
    serde_json::to_writer(out, text)
}

/// Numbers are doubles to the RFC. An integer that a double holds exactly is written as it is; `ryu_js` writes all others as ECMAScript
/// does.
fn write_number(number: &Number, out: &mut Vec<u8>) -> Result<(), Error> {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    if magnitude.is_some_and(|magnitude| magnitude <= EXACT_INTEGER_MAX) {
        return serde_json::to_writer(out, number);
    }
    let double = number.as_f64().filter(|double| double.is_finite());
    let double = double.ok_or_else(|| Error::custom("a number is not finite"))?;
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(double).as_bytes());
    Ok(())
}
