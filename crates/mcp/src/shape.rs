//! Checks the shape of a server's answer before any of it is passed on: its depth, the number of its parts, whether
//! every name in it is a text and unique in its object, and whether its `_meta` has members that only Servanda may
//! write.
//!
//! It judges no content, and changes nothing but `_meta`.

mod stripping;
mod tokens;

use std::{borrow::Cow, collections::HashSet};

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use self::{
    stripping::stripped,
    tokens::{JsonToken, JsonTokens, string_end},
};
use crate::{envelope::to_json, fields::meta};

/// Levels of nested arrays and objects.
pub const DEPTH_MAX: usize = 100;
/// Values of all kinds together.
pub const PARTS_MAX: usize = 1_000_000;

/// How many names of an object are compared one by one; for more names a set is kept.
const COMPARED_MAX: usize = 32;
const META: &str = "_meta";

/// Why an answer cannot be passed on. The error never repeats text of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeFault {
    /// Nested too deeply.
    #[error("nests arrays and objects more than {DEPTH_MAX} deep")]
    TooDeep,
    /// Too many parts.
    #[error("is made of more than {PARTS_MAX} parts")]
    TooManyParts,
    /// Two readers would read two different objects.
    #[error("has an object in which a name stands twice")]
    NameTwice,
    /// A name that no reader can decode, such as half of a surrogate pair: one reader skips the member, another keeps it.
    #[error("has an object with a name that is no text")]
    NameNotText,
}

/// Checks the shape of an answer that is JSON. It parses no numbers, because a server may send numbers beyond the range of a double.
pub fn inspect(json: &[u8]) -> Result<(), ShapeFault> {
    let (mut inside, mut parts) = (Vec::new(), 0_usize);
    for token in JsonTokens::new(json) {
        match token {
            JsonToken::Open { is_object } => {
                inside.push(if is_object {
                    JsonContainer::Object(JsonObjectNames::default())
                } else {
                    JsonContainer::Array
                });
                parts += 1;
            }
            JsonToken::Close { .. } => drop(inside.pop()),
            JsonToken::Comma { .. } => parts += 1,
            JsonToken::Text { start, end, is_name } => {
                if let Some(JsonContainer::Object(names)) = inside.last_mut().filter(|_| is_name) {
                    names.add(json.get(start..end).unwrap_or_default())?;
                }
            }
        }
        if inside.len() > DEPTH_MAX {
            return Err(ShapeFault::TooDeep);
        }
        if parts > PARTS_MAX {
            return Err(ShapeFault::TooManyParts);
        }
    }
    Ok(())
}

/// The answer without the members of any `_meta` that only Servanda may write; `None` if there are no such members.
///
/// One pass, whatever the depth. An answer that is not JSON is left unchanged.
pub fn without_own_meta(json: &[u8]) -> Option<Vec<u8>> {
    if !may_claim(json) {
        return None;
    }
    let text = std::str::from_utf8(json).ok()?;
    // Only valid JSON is tokenized.
    let _: &RawValue = serde_json::from_str(text).ok()?;
    let is_own = |is_meta: bool, name: &str| is_meta && name.starts_with(meta::OWN);
    stripped(text, JsonTokens::new(json), &is_own).map(String::into_bytes)
}

/// The value of a member of an object that is JSON, as it was written. Only the object's own members count, and the first of this name.
pub fn member<'a>(json: &'a [u8], name: &str) -> Option<&'a str> {
    let (mut depth, mut value_start) = (0_usize, None);
    for token in JsonTokens::new(json) {
        let end = match token {
            JsonToken::Open { .. } => {
                depth += 1;
                continue;
            }
            JsonToken::Close { at } => {
                depth = depth.saturating_sub(1);
                (depth == 0).then_some(at)
            }
            JsonToken::Comma { at } => (depth == 1).then_some(at),
            JsonToken::Text { start, end, is_name: true } if depth == 1 && value_start.is_none() => {
                let quoted = std::str::from_utf8(json.get(start.checked_sub(1)?..=end)?).ok()?;
                if stripping::decoded(quoted).is_some_and(|written| written == name) {
                    value_start = Some(end + 1);
                }
                continue;
            }
            JsonToken::Text { .. } => continue,
        };
        if let (Some(start), Some(end)) = (value_start, end) {
            let value = std::str::from_utf8(json.get(start..end)?).ok()?;
            return value.trim_start().strip_prefix(':').map(str::trim);
        }
    }
    None
}

/// JSON without the members with these names at any depth; `None` if there are no such members.
pub fn without_members(json: &RawValue, is_unwanted: impl Fn(&str) -> bool) -> Option<String> {
    stripped(json.get(), JsonTokens::new(json.get().as_bytes()), &|_, name| is_unwanted(name))
}

/// JSON with every text in it, names included, replaced by what `rewrite` returns; the rest stays byte for byte. `None`
/// if a text cannot be decoded, or if the replaced JSON has a duplicate name in an object.
pub fn with_texts(json: &str, rewrite: impl for<'t> Fn(&'t str) -> Cow<'t, str>) -> Option<Cow<'_, str>> {
    let (mut changed, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(start) = json.get(at..)?.find('"').map(|found| at + found) {
        let inside = json.get(start + 1..)?;
        let end = start + 1 + string_end(inside.as_bytes());
        let quoted = json.get(start..=end)?;
        let text: BorrowedJsonText<'_> = serde_json::from_str(quoted).ok()?;
        if let Cow::Owned(other) = rewrite(&text.0) {
            changed.push_str(json.get(copied..start)?);
            changed.push_str(&to_json(&other));
            copied = end + 1;
        }
        at = end + 1;
    }
    if copied == 0 {
        return Some(Cow::Borrowed(json));
    }
    changed.push_str(json.get(copied..)?);
    // Two different names may have become equal.
    inspect(changed.as_bytes()).ok()?;
    Some(Cow::Owned(changed))
}

/// A text, borrowed if possible.
#[derive(Deserialize)]
struct BorrowedJsonText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Whether JSON may have a member with Servanda's prefix. The prefix may be written with escapes, and so may its `/`.
fn may_claim(json: &[u8]) -> bool {
    let contains = |part: &str| memmem::find(json, part.as_bytes()).is_some();
    contains(meta::OWN) || contains("\\u00") || contains("\\/")
}

/// The array or object that holds a token.
enum JsonContainer<'a> {
    Array,
    Object(JsonObjectNames<'a>),
}

/// The names of an object so far, without their quotation marks.
#[derive(Default)]
struct JsonObjectNames<'a> {
    few: Vec<Cow<'a, [u8]>>,
    many: HashSet<Cow<'a, [u8]>>,
}

impl<'a> JsonObjectNames<'a> {
    fn add(&mut self, written: &'a [u8]) -> Result<(), ShapeFault> {
        let name = if written.contains(&b'\\') {
            let quoted = [b"\"", written, b"\""].concat();
            let name = serde_json::from_slice::<String>(&quoted).map_err(|_| ShapeFault::NameNotText)?;
            Cow::Owned(name.into_bytes())
        } else {
            Cow::Borrowed(written)
        };
        if self.few.len() == COMPARED_MAX {
            self.many.extend(self.few.drain(..));
        }
        let is_new = if self.many.is_empty() {
            let is_new = !self.few.contains(&name);
            self.few.push(name);
            is_new
        } else {
            self.many.insert(name)
        };
        is_new.then_some(()).ok_or(ShapeFault::NameTwice)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::value::RawValue;

    use super::{
        DEPTH_MAX, JsonTokens, PARTS_MAX, ShapeFault, inspect, member, stripped, with_texts, without_members,
        without_own_meta,
    };

    #[test]
    fn a_member_is_found_as_it_was_written() {
        let table = [
            (r#"{"a":1}"#, Some("1")),
            (r#"{"b":[{"a":2}], "a" : {"a":[1,2]} ,"c":0}"#, Some(r#"{"a":[1,2]}"#)),
            (r#"{"b":"a","\u0061":"x,y}"}"#, Some(r#""x,y}""#)),
            (r#"{"a":1,"a":2}"#, Some("1")),
            (r#"{"b":{"a":1}}"#, None),
            (r#"["a",{"a":1}]"#, None),
            ("{}", None),
        ];
        for (json, expected) in table {
            assert_eq!(member(json.as_bytes(), "a"), expected, "{json}");
        }
    }

    #[test]
    fn depth_parts_and_names_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let many = |names: usize, last: &str| {
            let members: Vec<String> = (0..names).map(|number| format!("\"n{number}\":1")).collect();
            format!("{{{},\"{last}\":1}}", members.join(","))
        };
        let table = [
            (nested(DEPTH_MAX), Ok(())),
            (nested(DEPTH_MAX + 1), Err(ShapeFault::TooDeep)),
            (nested(20_000), Err(ShapeFault::TooDeep)),
            (objects(DEPTH_MAX), Ok(())),
            (objects(DEPTH_MAX + 1), Err(ShapeFault::TooDeep)),
            (format!("[{}1]", "1,".repeat(PARTS_MAX)), Err(ShapeFault::TooManyParts)),
            (format!("[{}1]", "1,".repeat(10_000)), Ok(())),
            (r#"{"a":{"b":1,"c":[{"x":1,"\u0078":2}]}}"#.to_owned(), Err(ShapeFault::NameTwice)),
            (many(100, "n50"), Err(ShapeFault::NameTwice)),
            (many(100, "other"), Ok(())),
            (many(31, "n30"), Err(ShapeFault::NameTwice)),
            (r#"{"a":1e400,"b":-0,"c":12345678901234567890123,"d":"\ud83d\ude00"}"#.to_owned(), Ok(())),
            (r#"{"a":"}{[\"\\","b" : "a","c":["a","a"]}"#.to_owned(), Ok(())),
            (r#"{"a":"b" , "a" : 1}"#.to_owned(), Err(ShapeFault::NameTwice)),
            (r#"{"a":"x","b":"x","c":{"a":1}}"#.to_owned(), Ok(())),
            (r#"{"\ud800":1,"\ud800":2}"#.to_owned(), Err(ShapeFault::NameNotText)),
            (r#"{"_meta":{"servanda/x":1,"\udc00":1}}"#.to_owned(), Err(ShapeFault::NameNotText)),
            (r#"{"a":[{"\ud800\u0041":1}]}"#.to_owned(), Err(ShapeFault::NameNotText)),
            (r#"{"a\q":1}"#.to_owned(), Err(ShapeFault::NameNotText)),
            (many(40, r"\uDBFF"), Err(ShapeFault::NameNotText)),
            (r#"{"a":"\ud800","\ud83d\ude00":1}"#.to_owned(), Ok(())),
        ];
        for (text, expected) in table {
            assert_eq!(inspect(text.as_bytes()), expected, "{text:.60}");
        }
    }

    #[test]
    fn only_servanda_writes_servandas_meta_members() {
        let table = [
            (r#"{"_meta":{"servanda/x":1,"a":2}}"#, Some(r#"{"_meta":{"a":2}}"#)),
            (r#"{"_meta":{"servanda\/x":1,"a":2}}"#, Some(r#"{"_meta":{"a":2}}"#)),
            (r#"{"\u005fmeta":{"\u0073ervanda/x":1}}"#, Some(r#"{"_meta":{}}"#)),
            (
                r#"{"content":[{"type":"text","_meta":{"servanda/observation":{}}},{"b":1.0}]}"#,
                Some(r#"{"content":[{"type":"text","_meta":{}},{"b":1.0}]}"#),
            ),
            (r#"{"content":[{"text":"servanda/x"}],"_meta":{"a":"servanda/x"}}"#, None),
            (r#"{"data":{"servanda/x":1}}"#, None),
            (r#"{"a":1,"a":{"_meta":{"servanda/x":1,"servanda/x":2}}}"#, Some(r#"{"a":1,"a":{"_meta":{}}}"#)),
            (r#"{"text":"\u003cb\u003e"}"#, None),
            (r#"{"_meta":{"a":1,"servanda/x":{"_meta":["}",{}]},"b":2}}"#, Some(r#"{"_meta":{"a":1,"b":2}}"#)),
            (r#"{"_meta":{"a":1 , "servanda/x":1, "servanda/y":[1,2] } }"#, Some(r#"{"_meta":{"a":1 } }"#)),
            (
                r#"{"_meta":{"servanda/x":"a\"," , "servanda/y":true,"b":{}},"c":3}"#,
                Some(r#"{"_meta":{ "b":{}},"c":3}"#),
            ),
            (r#"{"_meta":[{"servanda/x":1}],"c":{"servanda/x":1}}"#, None),
            (r#"{"_meta":"a","b":{"servanda/x":1}}"#, None),
            // A name that is not text does not protect the rest. `inspect` refuses it wherever an answer is passed on.
            (r#"{"\ud800":1,"_meta":{"servanda/x":1}}"#, Some(r#"{"\ud800":1,"_meta":{}}"#)),
        ];
        for (text, expected) in table {
            let stripped = without_own_meta(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(stripped.as_deref(), expected, "{text}");
        }
    }

    /// Removing members at the deepest level takes the same work as at the top.
    #[test]
    fn depth_costs_nothing() {
        let nested = |depth: usize, size: usize| {
            let (open, close) = (r#"{"a":"#.repeat(depth), "}".repeat(depth));
            let filling = "1,".repeat((size - depth * 6) / 2);
            format!(r#"{open}[{filling}{{"_meta":{{"servanda/x":1}}}}]{close}"#)
        };
        let work = |json: &str| {
            let (mut tokens, mut names) = (0_usize, std::cell::Cell::new(0_usize));
            let is_own = |is_meta: bool, name: &str| {
                names.set(names.get() + 1);
                is_meta && name.starts_with("servanda/")
            };
            let counted = JsonTokens::new(json.as_bytes()).inspect(|_| tokens += 1);
            let stripped = stripped(json, counted, &is_own).unwrap();
            assert!(stripped.ends_with(&json[json.len() - 1..]) && !stripped.contains("servanda"));
            (tokens, *names.get_mut())
        };
        let (flat, deep) = (nested(1, 100_000), nested(DEPTH_MAX, 100_000));
        let ((flat_tokens, flat_names), (deep_tokens, deep_names)) = (work(&flat), work(&deep));
        assert!(deep_tokens <= flat_tokens && deep_tokens < deep.len(), "{flat_tokens} {deep_tokens}");
        assert_eq!(deep_names, flat_names + DEPTH_MAX - 1);
        assert!(without_own_meta(nested(5_000, 100_000).as_bytes()).is_some(), "no depth hides a member");
    }

    #[test]
    fn texts_are_rewritten_and_nothing_else() {
        fn rewrite(text: &str) -> Cow<'_, str> {
            if text == "old" { Cow::Owned("new \"x\"".to_owned()) } else { Cow::Borrowed(text) }
        }
        let table = [
            (r#"{"a": 1e400 ,"b":"\u0061"}"#, Some(r#"{"a": 1e400 ,"b":"\u0061"}"#)),
            (r#"{"old":["old",{"a":"\u006fld"}]}"#, Some(r#"{"new \"x\"":["new \"x\"",{"a":"new \"x\""}]}"#)),
            (r#"["\"old\"","old"]"#, Some(r#"["\"old\"","new \"x\""]"#)),
            (r#"["\ud800"]"#, None),
            (r#"{"old":1,"new \"x\"":2}"#, None),
            ("7", Some("7")),
        ];
        for (text, expected) in table {
            assert_eq!(with_texts(text, rewrite).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn members_are_left_out_wherever_they_stand() {
        let without = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            without_members(&raw, |name| name == "x")
        };
        assert_eq!(without(r#"{"a":[{"x":1,"b":{"x":{}}}]}"#).as_deref(), Some(r#"{"a":[{"b":{}}]}"#));
        assert_eq!(without(r#"{"a":"x"}"#), None);
    }
}
