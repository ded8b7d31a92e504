//! Edits files of a server's contracts as text: writes a new file, adds tools, or changes one tool's entry. All other text stays as it is,
//! and an edit is made only if the file, read again, has exactly the intended meaning.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value, json};
use servanda_contract::{
    document,
    layers::{Defaults, ServerContracts, ToolEntry},
};

use crate::failure::CommandFailure;

/// The head of a file that `init` writes.
const HEAD: &str = "\
# What Servanda holds these tools to. `servanda init` proposed it; correct what is wrong.
# `servanda review` walks through it, `servanda contract show TOOL` prints a whole contract and where each value comes from.
";

/// A new file.
pub(crate) fn compose(server: &str, tools: BTreeMap<String, ToolEntry>) -> Result<String, CommandFailure> {
    let file = ServerContracts { server: server.to_owned(), defaults: Defaults::default(), tools };
    let text = file.to_document().map_err(|error| CommandFailure::failed(error.to_string()))?;
    Ok(format!("{HEAD}{text}"))
}

/// The text with more tools at its end.
pub(crate) fn append(file: &Path, text: &str, tools: BTreeMap<String, ToolEntry>) -> Result<String, CommandFailure> {
    let before = read(file, text)?;
    let added = document::write(&tools).map_err(|error| CommandFailure::failed(error.to_string()))?;
    let mut after = text.trim_end().to_owned();
    after.push('\n');
    // `tools: {}` has no block to append to.
    if before.tools.is_empty() {
        after = without_empty_tools(&after);
    }
    let indent = lines_of_tools(&after).find_map(indent_of).unwrap_or(2);
    for line in added.lines() {
        after.extend(std::iter::repeat_n(' ', indent));
        after.push_str(line);
        after.push('\n');
    }
    let mut expected = before;
    expected.tools.extend(tools);
    verified(file, after, &expected, "add the tools there by hand")
}

/// The text with members of one tool's entry set or removed.
pub(crate) fn change(
    file: &Path,
    text: &str,
    tool: &str,
    changes: &[(&str, Option<Value>)],
) -> Result<String, CommandFailure> {
    let before = read(file, text)?;
    let Some(entry) = before.tools.get(tool) else {
        return Err(CommandFailure::failed(format!("{} has no tool `{tool}` any more", file.display())));
    };
    let mut members: Map<String, Value> = entry.clone().into();
    for (name, value) in changes {
        match value {
            Some(value) => members.insert((*name).to_owned(), value.clone()),
            None => members.remove(*name),
        };
    }
    let decided = ToolEntry::try_from(members)
        .map_err(|reason| CommandFailure::failed(format!("{}: `tools.{tool}`: {reason}", file.display())))?;
    let mut expected = before;
    expected.tools.insert(tool.to_owned(), decided);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, value) in changes {
        let Some(block) = block_of(&lines, tool) else {
            return Err(by_hand(file, &format!("change `tools.{tool}` there by hand")));
        };
        set(&mut lines, block, name, value.as_ref());
    }
    let mut after = lines.join("\n");
    after.push('\n');
    verified(file, after, &expected, &format!("change `tools.{tool}` there by hand"))
}

fn read(file: &Path, text: &str) -> Result<ServerContracts, CommandFailure> {
    ServerContracts::from_document(&file.display().to_string(), text)
        .map_err(|error| CommandFailure::bad_input(error.to_string()))
}

/// Returns the text if it has the expected meaning.
fn verified(file: &Path, text: String, expected: &ServerContracts, otherwise: &str) -> Result<String, CommandFailure> {
    match ServerContracts::from_document("after", &text) {
        Ok(after) if after == *expected => Ok(text),
        _ => Err(by_hand(file, otherwise)),
    }
}

fn by_hand(file: &Path, otherwise: &str) -> CommandFailure {
    CommandFailure::failed(format!(
        "`{}` is not laid out as `servanda init` writes it, and stays as it is",
        file.display()
    ))
    .hint(otherwise.to_owned())
}

/// The lines of a tool's entry: its first line, and the line after its last.
#[derive(Debug, Clone, Copy)]
struct ToolEntryBlock {
    start: usize,
    end: usize,
    indent: usize,
}

/// Finds the block of a tool below `tools:`.
fn block_of(lines: &[String], tool: &str) -> Option<ToolEntryBlock> {
    let tools = lines.iter().position(|line| line.trim_end() == "tools:")?;
    let mut at = tools + 1;
    while let Some(line) = lines.get(at) {
        match indent_of(line) {
            Some(0) => return None,
            Some(indent) if key_of(line) == Some(tool.to_owned()) && line.trim_end().ends_with(':') => {
                let after = lines.iter().skip(at + 1).take_while(|line| indent_of(line).is_none_or(|its| its > indent));
                let length = after.count();
                return Some(ToolEntryBlock { start: at, end: trimmed(lines, at + 1 + length), indent });
            }
            Some(indent) => {
                let below = lines.iter().skip(at + 1).take_while(|line| indent_of(line).is_none_or(|its| its > indent));
                at += 1 + below.count();
            }
            None => at += 1,
        }
    }
    None
}

/// Excludes blank lines and comments at the end of a block, because they belong to what follows.
fn trimmed(lines: &[String], end: usize) -> usize {
    let mut end = end;
    while end > 0 && lines.get(end - 1).is_some_and(|line| indent_of(line).is_none()) {
        end -= 1;
    }
    end
}

/// Sets or removes one member of a block.
fn set(lines: &mut Vec<String>, block: ToolEntryBlock, name: &str, value: Option<&Value>) {
    let mut inside = lines.iter().take(block.end).skip(block.start + 1);
    let indent = inside.find_map(|line| indent_of(line)).unwrap_or(block.indent + 2);
    let there = (block.start + 1..block.end).find(|at| {
        lines.get(*at).is_some_and(|line| indent_of(line) == Some(indent) && key_of(line).as_deref() == Some(name))
    });
    let written = value.map(|value| format!("{}{name}: {}", " ".repeat(indent), flow(value)));
    match there {
        Some(at) => {
            let continues = |line: &String| {
                let its = indent_of(line);
                its.is_some_and(|its| its > indent) || its == Some(indent) && line.trim_start().starts_with("- ")
            };
            let length = lines.iter().take(block.end).skip(at + 1).take_while(|line| continues(line)).count();
            lines.splice(at..=at + length, written);
        }
        None => {
            lines.splice(block.end..block.end, written);
        }
    }
}

/// A value as one line of YAML.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) if text.chars().all(|it| it.is_ascii_uppercase() || it == '_' || it == '|') => text.clone(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{}: {}", flow_key(name), flow(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        // JSON is YAML.
        other => json!(other).to_string(),
    }
}

fn flow_key(name: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if name.chars().all(plain) { name.to_owned() } else { json!(name).to_string() }
}

/// The indentation of a line; none for blank lines and comments.
fn indent_of(line: &str) -> Option<usize> {
    let content = line.trim_start_matches(' ');
    (!content.trim().is_empty() && !content.starts_with('#')).then(|| line.len() - content.len())
}

/// The key that a line begins with.
fn key_of(line: &str) -> Option<String> {
    let content = line.trim_start();
    let quoted = content.starts_with(['"', '\'']);
    let key = if quoted {
        let quote = content.chars().next()?;
        let end = content.get(1..)?.find(quote)? + 2;
        content.get(..end).filter(|_| content.get(end..).is_some_and(|rest| rest.starts_with(':')))?
    } else {
        content.split_once(':')?.0
    };
    document::read::<String>("key", key).ok()
}

fn lines_of_tools(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip_while(|line| line.trim_end() != "tools:").skip(1)
}

fn without_empty_tools(text: &str) -> String {
    let line = |line: &str| if line.trim_end() == "tools: {}" { "tools:\n".to_owned() } else { format!("{line}\n") };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests;
