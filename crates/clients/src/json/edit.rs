//! Adds or removes one member of an object by editing the text. All other bytes stay as they are, comments and odd indentation included.
//! New lines use the text's own indentation and line ends.

use std::ops::Range;

use serde_json::Value;

use super::{JsoncError, JsoncMember, JsoncNode, line_and_column, parse};

/// The indentation, if the text has none to follow.
const INDENT: &str = "  ";

/// Sets `key` in the top-level object `container`, which is created if it is missing.
pub fn put(text: &str, container: &str, key: &str, value: &Value) -> Result<String, JsoncError> {
    put_in(text, container, key, |style| style.render(value, 2))
}

/// The same with a value given as JSON text.
pub(crate) fn put_raw(text: &str, container: &str, key: &str, raw: &str) -> Result<String, JsoncError> {
    put_in(text, container, key, |_| raw.to_owned())
}

/// Removes `key` from the object `container`. If the object is then empty and `container_too` is set, removes the object as well.
pub fn take_out(text: &str, container: &str, key: &str, container_too: bool) -> Result<String, JsoncError> {
    let edited = remove(text, &[container], key)?;
    let empty = object(&edited, &[container])?.is_some_and(|node| node.members().is_some_and(<[_]>::is_empty));
    if empty && container_too { remove(&edited, &[], container) } else { Ok(edited) }
}

fn put_in(
    text: &str,
    container: &str,
    key: &str,
    render: impl Fn(&JsoncStyle<'_>) -> String,
) -> Result<String, JsoncError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    if object(text, &[container])?.is_none() {
        let with_container = insert(text, &[], container, |_| "{}".to_owned())?;
        return insert(&with_container, &[container], key, render);
    }
    insert(text, &[container], key, render)
}

pub(super) fn insert(
    text: &str,
    path: &[&str],
    key: &str,
    render: impl Fn(&JsoncStyle<'_>) -> String,
) -> Result<String, JsoncError> {
    let Some(node) = object(text, path)? else { return Ok(text.to_owned()) };
    let style = JsoncStyle::detect(text, &node);
    if let Some(member) = node.member(key) {
        return Ok(apply(text, vec![(member.value.span.clone(), render(&style))]));
    }
    let members = node.members().unwrap_or_default();
    let inside = text.get(node.span.start + 1..node.span.end - 1).unwrap_or_default();
    let tail = node.span.start + 1 + inside.trim_end().len();
    let member = format!("{}:{}{}", Value::from(key), style.blank(), render(&style));
    let mut edits = Vec::new();
    let last = members.last();
    if let Some(last) = last.filter(|last| last.comma.is_none()) {
        edits.push((last.value.span.end..last.value.span.end, ",".to_owned()));
    }
    let comma = if last.is_some_and(|last| last.comma.is_some()) { "," } else { "" };
    let text_there = if style.lines {
        let close = if text.get(tail..node.span.end).is_some_and(|rest| rest.contains('\n')) {
            String::new()
        } else {
            format!("{}{}", style.line_end, style.outer)
        };
        format!("{}{}{}{member}{comma}{close}", style.line_end, style.outer, style.unit)
    } else {
        let before = if last.is_some() { style.blank() } else { "" };
        format!("{before}{member}{comma}")
    };
    edits.push((tail..tail, text_there));
    Ok(apply(text, edits))
}

fn remove(text: &str, path: &[&str], key: &str) -> Result<String, JsoncError> {
    let Some(node) = object(text, path)? else { return Ok(text.to_owned()) };
    let members = node.members().unwrap_or_default();
    let Some(index) = members.iter().position(|member| member.key == key) else { return Ok(text.to_owned()) };
    let Some(member) = members.get(index) else { return Ok(text.to_owned()) };
    let mut edits = Vec::new();
    // If the last member is removed, the comma before it is removed too, so that it does not trail.
    let before = index.checked_sub(1).and_then(|index| members.get(index)).and_then(|before| before.comma);
    if let Some(comma) = before.filter(|_| member.comma.is_none()) {
        edits.push((comma..comma + 1, String::new()));
    }
    edits.push((extent(text, member), String::new()));
    let edited = apply(text, edits);
    // An object with only blanks between its braces is empty.
    let Some(node) = object(&edited, path)? else { return Ok(edited) };
    let inside = node.span.start + 1..node.span.end - 1;
    let blank = edited.get(inside.clone()).is_some_and(|inside| inside.trim().is_empty());
    Ok(if blank { apply(&edited, vec![(inside, String::new())]) } else { edited })
}

/// The range to remove with a member: whole lines, if the member is alone on them.
fn extent(text: &str, member: &JsoncMember) -> Range<usize> {
    let end = member.comma.map_or(member.value.span.end, |comma| comma + 1);
    let before = text.get(..member.start).unwrap_or_default();
    let behind = text.get(end..).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let starts_line = line_start > 0 && before.get(line_start..).is_some_and(|lead| lead.trim().is_empty());
    let line_rest = behind.split_inclusive('\n').next().unwrap_or_default();
    let ends_line = line_rest.ends_with('\n') && line_rest.trim().is_empty();
    if starts_line && ends_line {
        return line_start..end + line_rest.len();
    }
    let lead = before.len() - before.trim_end_matches([' ', '\t']).len();
    let blank = line_rest.len() - line_rest.trim_start_matches([' ', '\t']).len();
    // The member shares its line with others: the blanks on one side of it are removed too.
    if member.comma.is_none() || line_rest.trim().is_empty() {
        member.start - lead..end
    } else {
        member.start..end + blank
    }
}

/// The object at a path; none if it is missing; an error if another kind of value is there.
pub(super) fn object(text: &str, path: &[&str]) -> Result<Option<JsoncNode>, JsoncError> {
    let mut node = parse(text)?;
    let mut walked = String::from("the file");
    for key in path {
        expect_object(text, &node, &walked)?;
        match node.member(key) {
            Some(member) => node = member.value.clone(),
            None => return Ok(None),
        }
        walked = format!("`{key}`");
    }
    expect_object(text, &node, &walked)?;
    Ok(Some(node))
}

fn expect_object(text: &str, node: &JsoncNode, what: &str) -> Result<(), JsoncError> {
    if node.members().is_some() {
        return Ok(());
    }
    let (line, column) = line_and_column(text, node.span.start);
    Err(JsoncError { line, column, reason: format!("{what} should be an object, in braces") })
}

/// Applies edits, which must be sorted by position and must not overlap.
pub(super) fn apply(text: &str, edits: Vec<(Range<usize>, String)>) -> String {
    let mut edited = String::with_capacity(text.len());
    let mut done = 0;
    for (range, new) in edits {
        edited.push_str(text.get(done..range.start).unwrap_or_default());
        edited.push_str(&new);
        done = range.end;
    }
    edited.push_str(text.get(done..).unwrap_or_default());
    edited
}

/// How the text around an object is written.
pub(super) struct JsoncStyle<'a> {
    line_end: &'a str,
    /// The indentation of the line on which the object opens.
    outer: &'a str,
    /// The additional indentation of its members.
    unit: &'a str,
    /// Whether members have their own lines.
    lines: bool,
    /// Whether a blank follows `:` and `,` on one line.
    airy: bool,
}

impl<'a> JsoncStyle<'a> {
    fn detect(text: &'a str, node: &JsoncNode) -> Self {
        let inside = text.get(node.span.clone()).unwrap_or_default();
        let members = node.members().unwrap_or_default();
        let bare = text.trim().trim_start_matches('\u{feff}').len() == inside.len();
        let lines = inside.contains('\n') || (members.is_empty() && (bare || text.trim().contains('\n')));
        let outer = lead_of_line(text, node.span.start);
        let own = members
            .last()
            .map(|member| lead_of_line(text, member.start))
            .and_then(|lead| lead.strip_prefix(outer))
            .filter(|unit| !unit.is_empty());
        Self {
            line_end: if text.contains("\r\n") { "\r\n" } else { "\n" },
            outer,
            unit: own.unwrap_or_else(|| unit_of(text)),
            lines,
            airy: !text.contains("\":") || text.contains("\": "),
        }
    }

    fn blank(&self) -> &'static str {
        if self.lines || self.airy { " " } else { "" }
    }

    /// Writes a value. An object gets several lines if the text around it does; a list of words stays on one line.
    pub(super) fn render(&self, value: &Value, depth: usize) -> String {
        match value {
            Value::Object(members) if members.is_empty() => "{}".to_owned(),
            Value::Object(members) => {
                let member = |(key, value): (&String, &Value)| {
                    format!("{}:{}{}", Value::from(key.as_str()), self.blank(), self.render(value, depth + 1))
                };
                let members = members.iter().map(member);
                if !self.lines {
                    return format!("{{{}}}", members.collect::<Vec<_>>().join(&format!(",{}", self.blank())));
                }
                let lead = format!("{}{}{}", self.line_end, self.outer, self.unit.repeat(depth));
                let close = format!("{}{}{}", self.line_end, self.outer, self.unit.repeat(depth - 1));
                format!("{{{}{close}}}", members.map(|member| format!("{lead}{member}")).collect::<Vec<_>>().join(","))
            }
            Value::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| self.render(item, depth + 1)).collect();
                format!("[{}]", items.join(&format!(",{}", self.blank())))
            }
            scalar => scalar.to_string(),
        }
    }
}

/// The blanks at the start of a line, up to `position` at most.
pub(super) fn lead_of_line(text: &str, position: usize) -> &str {
    let before = text.get(..position).unwrap_or_default();
    let line = before.get(before.rfind('\n').map_or(0, |at| at + 1)..).unwrap_or_default();
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
}

/// The indentation of the first indented line.
fn unit_of(text: &str) -> &str {
    let leads = text.lines().skip(1).map(|line| (line, line.trim_start_matches([' ', '\t'])));
    leads
        .filter(|(line, rest)| rest.starts_with('"') && rest.len() < line.len())
        .find_map(|(line, rest)| line.get(..line.len() - rest.len()))
        .unwrap_or(INDENT)
}
