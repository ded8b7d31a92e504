//! Edits Codex's file, the only client file in TOML: each server is a table `[mcp_servers.NAME]`. Comments and layout stay; a file in which
//! they could not stay is not edited.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use crate::json::line_and_column;

/// The table that holds the servers.
pub(crate) const CONTAINER: &str = "mcp_servers";

/// Why a file cannot be read or edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TomlError {
    /// It is not TOML.
    #[error("line {line}, column {column}: {reason}")]
    Syntax {
        /// Counted from one.
        line: usize,
        /// In characters, counted from one.
        column: usize,
        /// What is wrong there.
        reason: String,
    },
    /// Its layout would not stay.
    #[error("it cannot be edited without changing other lines too")]
    Layout,
    /// The field for servers holds something else.
    #[error("`{CONTAINER}` should be a table")]
    NotATable,
}

/// A whole file as a value.
pub fn read(text: &str) -> Result<Value, TomlError> {
    parse(text).map(|document| object(document.as_table()))
}

/// Sets a server.
pub(crate) fn put(text: &str, name: &str, entry: &Value) -> Result<String, TomlError> {
    edit(text, |document| {
        let mut table = Table::new();
        for (key, value) in entry.as_object().into_iter().flatten() {
            table.insert(key, item(value));
        }
        if !text.trim().is_empty() {
            table.decor_mut().set_prefix("\n");
        }
        servers(document)?.insert(name, Item::Table(table));
        Ok(())
    })
}

/// Restores a server as another text has it.
pub(crate) fn put_back(text: &str, name: &str, from: &str) -> Result<String, TomlError> {
    let source = parse(from)?;
    let Some(there) = source.get(CONTAINER).and_then(|servers| servers.get(name)) else { return Ok(text.to_owned()) };
    edit(text, |document| {
        let mut there = there.clone();
        // The table's position in the other text means nothing here.
        if let Some(table) = there.as_table_mut() {
            table.set_position(None);
        }
        servers(document)?.insert(name, there);
        Ok(())
    })
}

/// Removes a server.
pub(crate) fn take_out(text: &str, name: &str) -> Result<String, TomlError> {
    edit(text, |document| {
        let Some(table) = document.get_mut(CONTAINER).and_then(Item::as_table_like_mut) else { return Ok(()) };
        table.remove(name);
        if table.is_empty() {
            document.remove(CONTAINER);
        }
        Ok(())
    })
}

fn edit(text: &str, change: impl FnOnce(&mut DocumentMut) -> Result<(), TomlError>) -> Result<String, TomlError> {
    // The library writes only `\n` as a line end.
    let plain = text.replace("\r\n", "\n");
    let carriage = plain.len() != text.len();
    let again = |plain: String| if carriage { plain.replace('\n', "\r\n") } else { plain };
    let mut document = parse(&plain)?;
    // Everything that is not edited must come out unchanged.
    if again(document.to_string()) != text {
        return Err(TomlError::Layout);
    }
    change(&mut document)?;
    Ok(again(document.to_string()))
}

fn parse(text: &str) -> Result<DocumentMut, TomlError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let (line, column) = error.span().map_or((1, 1), |span| line_and_column(text, span.start));
        let reason = error.message().lines().next().unwrap_or_default().to_owned();
        TomlError::Syntax { line, column, reason }
    })
}

fn servers(document: &mut DocumentMut) -> Result<&mut dyn TableLike, TomlError> {
    let mut fresh = Table::new();
    // `[mcp_servers]` gets no heading of its own, because each server has one.
    fresh.set_implicit(true);
    let there = document.entry(CONTAINER).or_insert(Item::Table(fresh));
    there.as_table_like_mut().ok_or(TomlError::NotATable)
}

fn item(value: &Value) -> Item {
    toml_value(value).map_or(Item::None, Item::Value)
}

fn toml_value(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::Number(number) => number.as_i64().map(Into::into).or_else(|| number.as_f64().map(Into::into))?,
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().filter_map(toml_value).collect::<Array>().into(),
        Value::Object(members) => {
            let pairs = members.iter().filter_map(|(key, value)| Some((key.as_str(), toml_value(value)?)));
            pairs.collect::<InlineTable>().into()
        }
    })
}

fn object(table: &dyn TableLike) -> Value {
    let members = table.iter().filter_map(|(key, item)| Some((key.to_owned(), json_item(item)?)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn json_item(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(json_value(value)),
        Item::Table(table) => Some(object(table)),
        Item::ArrayOfTables(tables) => Some(tables.iter().map(|table| object(table)).collect()),
    }
}

fn json_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(time) => time.value().to_string().into(),
        toml_edit::Value::Array(items) => items.iter().map(json_value).collect(),
        toml_edit::Value::InlineTable(table) => object(table),
    }
}
