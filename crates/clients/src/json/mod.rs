//! Reads JSON settings files, with comments and trailing commas. Every value keeps its position, so that an error can name the line and an
//! edit can leave all other text alone. Edits are in `edit`. What a value means is decided by the callers.

pub mod edit;
pub(crate) mod list_edit;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::Range};

use serde_json::Value;

/// How deeply arrays and objects may be nested; other JSON readers have the same limit.
const DEPTH_MAX: usize = 128;
/// A mark that some editors put before the first character.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsoncNode {
    /// From its first byte to the one after its last.
    pub span: Range<usize>,
    /// What it is.
    pub shape: JsoncShape,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsoncShape {
    /// Members in the order they were written.
    Object(Vec<JsoncMember>),
    /// Items.
    Array(Vec<JsoncNode>),
    /// Any other value.
    Scalar(Value),
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsoncMember {
    /// Its name.
    pub key: String,
    /// Where the name's quote opens.
    pub start: usize,
    /// Its value.
    pub value: JsoncNode,
    /// The position of the comma after it, if there is one.
    pub comma: Option<usize>,
}

/// Why a text is not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {reason}")]
pub struct JsoncError {
    /// Counted from one.
    pub line: usize,
    /// In characters, counted from one.
    pub column: usize,
    /// What is wrong there.
    pub reason: String,
}

impl JsoncNode {
    /// The members, if it is an object.
    pub fn members(&self) -> Option<&[JsoncMember]> {
        match &self.shape {
            JsoncShape::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The member of that name.
    pub fn member(&self, key: &str) -> Option<&JsoncMember> {
        self.members()?.iter().find(|member| member.key == key)
    }

    /// The value without positions.
    pub fn value(&self) -> Value {
        match &self.shape {
            JsoncShape::Object(members) => {
                Value::Object(members.iter().map(|member| (member.key.clone(), member.value.value())).collect())
            }
            JsoncShape::Array(items) => Value::Array(items.iter().map(Self::value).collect()),
            JsoncShape::Scalar(value) => value.clone(),
        }
    }
}

/// Reads a text that contains exactly one value.
pub fn parse(text: &str) -> Result<JsoncNode, JsoncError> {
    let mut reader = JsoncReader { text, position: 0 };
    if text.starts_with(BYTE_ORDER_MARK) {
        reader.position = BYTE_ORDER_MARK.len();
    }
    reader.skip()?;
    let root = reader.value(0)?;
    reader.skip()?;
    if reader.peek().is_some() {
        return Err(reader.wrong("there is text after the end"));
    }
    Ok(root)
}

/// Line and column of a byte, both counted from one.
pub fn line_and_column(text: &str, position: usize) -> (usize, usize) {
    let before = text.get(..position).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

struct JsoncReader<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> JsoncReader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let there = self.peek() == Some(expected);
        if there {
            self.position += expected.len_utf8();
        }
        there
    }

    fn wrong(&self, reason: impl Into<String>) -> JsoncError {
        let (line, column) = line_and_column(self.text, self.position);
        JsoncError { line, column, reason: reason.into() }
    }

    /// Skips blanks and comments.
    fn skip(&mut self) -> Result<(), JsoncError> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.position += blank;
            let rest = self.rest();
            if rest.starts_with("//") {
                self.position += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(inside) = rest.strip_prefix("/*") {
                let end = inside.find("*/").ok_or_else(|| self.wrong("this comment has no end"))?;
                self.position += end + "/**/".len();
            } else if blank == 0 {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsoncNode, JsoncError> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("more than {DEPTH_MAX} arrays and objects inside each other")));
        }
        let start = self.position;
        let shape = match self.peek() {
            Some('{') => self.object(depth)?,
            Some('[') => self.array(depth)?,
            Some('"') => JsoncShape::Scalar(Value::String(self.string()?)),
            Some(_) => self.word()?,
            None => return Err(self.wrong("a value is missing")),
        };
        Ok(JsoncNode { span: start..self.position, shape })
    }

    fn object(&mut self, depth: usize) -> Result<JsoncShape, JsoncError> {
        self.take('{');
        let mut members = Vec::new();
        let mut keys = BTreeSet::new();
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(JsoncShape::Object(members));
            }
            let start = self.position;
            if self.peek() != Some('"') {
                return Err(self.wrong("expected a name in quotes, or `}`"));
            }
            let key = self.string()?;
            if !keys.insert(key.clone()) {
                self.position = start;
                return Err(self.wrong(format!("`{key}` stands there twice")));
            }
            self.skip()?;
            if !self.take(':') {
                return Err(self.wrong("expected `:`"));
            }
            self.skip()?;
            let value = self.value(depth + 1)?;
            self.skip()?;
            let comma = (self.peek() == Some(',')).then_some(self.position);
            members.push(JsoncMember { key, start, value, comma });
            if comma.is_some() {
                self.take(',');
            } else if self.peek() != Some('}') {
                return Err(self.wrong("expected `,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<JsoncShape, JsoncError> {
        self.take('[');
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(JsoncShape::Array(items));
            }
            items.push(self.value(depth + 1)?);
            self.skip()?;
            if !self.take(',') && self.peek() != Some(']') {
                return Err(self.wrong("expected `,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, JsoncError> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find_map(|(at, character)| {
            let closes = character == '"' && !escaped;
            escaped = character == '\\' && !escaped;
            closes.then_some(at + 1)
        });
        let end = end.ok_or_else(|| self.wrong("this text has no closing quote"))?;
        let text = serde_json::from_str(rest.get(..end).unwrap_or_default())
            .map_err(|_| self.wrong("this text has an escape or a control character that JSON does not allow"))?;
        self.position += end;
        Ok(text)
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<JsoncShape, JsoncError> {
        let rest = self.rest();
        let end = rest
            .find(|character: char| !character.is_ascii_alphanumeric() && !"+-.".contains(character))
            .unwrap_or(rest.len());
        let value =
            serde_json::from_str(rest.get(..end).unwrap_or_default()).map_err(|_| self.wrong("expected a value"))?;
        self.position += end;
        Ok(JsoncShape::Scalar(value))
    }
}
