//! Checks the shape of a server's answer before any of it is passed on: its depth, the number of its parts, whether every name in it is
//! a text and stands once in its object, and whether its `_meta` has members that only Servanda may write.
//!
//! It judges no content, and changes nothing but `_meta`.

use std::{borrow::Cow, collections::HashSet};

use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{envelope::to_json, fields::meta};

/// Arrays and objects inside each other.
pub const DEPTH_MAX: usize = 100;
/// Values of all kinds, together.
pub const PARTS_MAX: usize = 1_000_000;

/// How many names of an object are compared one by one; for more names a set is kept.
const COMPARED_MAX: usize = 32;
const META: &str = "_meta";

/// Why an answer cannot be passed on. It never repeats text of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ShapeFault {
    /// Too deep.
    #[error("nests arrays and objects more than {DEPTH_MAX} deep")]
    TooDeep,
    /// Too many parts.
    #[error("is made of more than {PARTS_MAX} parts")]
    TooManyParts,
    /// Two readers would read two objects.
    #[error("has an object in which a name stands twice")]
    NameTwice,
    /// A name that no reader can decode, such as half of a surrogate pair: one reader skips the member, another keeps it.
    #[error("has an object with a name that is no text")]
    NameNotText,
}

/// Checks the shape of an answer that is JSON. It parses no numbers, because a server may send numbers beyond the range of a double.
pub fn inspect(json: &[u8]) -> Result<(), ShapeFault> {
    let (mut inside, mut parts, mut rest) = (Vec::new(), 0_usize, json);
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'{' | b'[' => {
                inside.push(if byte == b'{' { Inside::Object(Names::default()) } else { Inside::Array });
                parts += 1;
            }
            b'}' | b']' => drop(inside.pop()),
            b',' => parts += 1,
            b'"' => {
                let (text, after) = rest.split_at(string_end(rest));
                rest = after.get(1..).unwrap_or_default();
                let is_name = rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
                if let Some(Inside::Object(names)) = inside.last_mut().filter(|_| is_name) {
                    names.add(text)?;
                }
            }
            _ => {}
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

/// How many bytes of a text there are before the quotation mark that ends it.
fn string_end(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

/// The answer without members of any `_meta` that only Servanda may write; none if there are no such members.
///
/// An answer with a name that is no text stays as it is, even with such members. [`inspect`] refuses it.
pub fn without_own_meta(json: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(json).ok().filter(|text| may_claim(text))?;
    let raw: &RawValue = serde_json::from_str(text).ok()?;
    let is_own = |is_meta: bool, name: &str| is_meta && name.starts_with(meta::OWN);
    stripped(raw, false, &is_own, 0).map(String::into_bytes)
}

/// JSON without the members of these names at any depth; none if there are no such members.
pub fn without_members(json: &RawValue, is_unwanted: impl Fn(&str) -> bool) -> Option<String> {
    stripped(json, false, &|_, name| is_unwanted(name), 0)
}

/// JSON with every text in it, names too, replaced by what `rewrite` returns; the rest stays byte for byte. None if a text cannot be
/// decoded.
pub fn with_texts(json: &str, rewrite: impl for<'t> Fn(&'t str) -> Cow<'t, str>) -> Option<Cow<'_, str>> {
    let (mut changed, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(start) = json.get(at..)?.find('"').map(|found| at + found) {
        let inside = json.get(start + 1..)?;
        let end = start + 1 + string_end(inside.as_bytes());
        let quoted = json.get(start..=end)?;
        let text: Text<'_> = serde_json::from_str(quoted).ok()?;
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
    Some(Cow::Owned(changed))
}

/// A text borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Whether JSON may have a member with Servanda's prefix. The prefix may be written with escapes, and so may its `/`.
fn may_claim(text: &str) -> bool {
    text.contains(meta::OWN) || text.contains("\\u00") || text.contains("\\/")
}

/// Whether a member is left out, by whether it stands in `_meta` and by its name.
type Unwanted<'u> = &'u dyn Fn(bool, &str) -> bool;

/// None if nothing changes.
fn stripped(raw: &RawValue, is_meta: bool, is_unwanted: Unwanted<'_>, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    let mut changed = false;
    if raw.get().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
        let items: Vec<Cow<'_, str>> = items
            .into_iter()
            .map(|item| match stripped(item, false, is_unwanted, depth + 1) {
                None => Cow::Borrowed(item.get()),
                Some(other) => {
                    changed = true;
                    Cow::Owned(other)
                }
            })
            .collect();
        return changed.then(|| format!("[{}]", items.join(",")));
    }
    if !raw.get().starts_with('{') {
        return None;
    }
    let Members(members) = serde_json::from_str(raw.get()).ok()?;
    let mut kept = Vec::new();
    for (name, value) in members {
        if is_unwanted(is_meta, &name) {
            changed = true;
            continue;
        }
        let other = stripped(value, name == META, is_unwanted, depth + 1);
        changed |= other.is_some();
        kept.push(format!("{}:{}", to_json(&name), other.as_deref().unwrap_or(value.get())));
    }
    changed.then(|| format!("{{{}}}", kept.join(",")))
}

/// All members of an object, also those whose name stands there twice, so that a second member of the same name hides nothing.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// The array or object that holds a token.
enum Inside<'a> {
    Array,
    Object(Names<'a>),
}

/// The names of an object so far, without their quotation marks.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, [u8]>>,
    many: HashSet<Cow<'a, [u8]>>,
}

impl<'a> Names<'a> {
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

    use super::{DEPTH_MAX, PARTS_MAX, ShapeFault, inspect, with_texts, without_members, without_own_meta};

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
    fn only_servanda_says_what_is_servandas() {
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
        ];
        for (text, expected) in table {
            let stripped = without_own_meta(text.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(stripped.as_deref(), expected, "{text}");
        }
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
