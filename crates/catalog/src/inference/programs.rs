//! Which arguments carry a program or a request: proposes `x-effect` for them, so that the behaviour gate reads what they would
//! do. Only if the definition says so in words. An argument that merely could be a program is left alone, because a reader of
//! the wrong language would refuse good values.

use serde_json::{Map, Value, json};
use servanda_gates::{EFFECT_KEYWORD, unenforced_programs};

use super::spelling::words;
use crate::pins::Definition;

/// Arguments that are SQL by their name.
const SQL_NAMES: [&str; 8] =
    ["sql", "sql query", "query sql", "sql statement", "sql text", "raw sql", "sql command", "sql code"];
/// Arguments that are SQL if the definition says so.
const QUERY_NAMES: [&str; 3] = ["query", "statement", "query string"];
/// Words that mean SQL, and the dialect of each.
const SQL_WORDS: [(&str, &str); 8] = [
    ("sqlite", "sqlite"),
    ("sqlite3", "sqlite"),
    ("postgresql", "postgresql"),
    ("postgres", "postgresql"),
    ("mysql", "mysql"),
    ("mariadb", "mysql"),
    ("sql", "sql"),
    ("tsql", "sql"),
];
/// Engines whose SQL is none of these dialects.
const OTHER_ENGINES: [&str; 12] = [
    "clickhouse",
    "bigquery",
    "snowflake",
    "athena",
    "redshift",
    "starrocks",
    "databricks",
    "oracle",
    "mssql",
    "duckdb",
    "trino",
    "presto",
];
/// Words next to `SQL` that give it another meaning.
const NOT_SQL_AFTER: [&str; 4] = ["like", "style", "docs", "plus"];
const NOT_SQL_BEFORE: [&str; 3] = ["no", "not", "without"];
/// Words of a tool that searches: its query is a search term.
const SEARCHES: [&str; 6] = ["search", "find", "lookup", "docs", "documentation", "ask"];
/// Words of a tool that takes a program and does not run it.
const LEAVES: [&str; 9] =
    ["lint", "validate", "convert", "converts", "format", "parse", "translate", "repair", "explain"];
/// Words of an argument's description that say that it is run.
const RUNS: [&str; 6] = ["execute", "executed", "run", "select", "statement", "queries"];

/// Arguments that are shell commands if the definition says so.
const SHELL_NAMES: [&str; 8] =
    ["command", "cmd", "script", "shell command", "bash command", "shell", "bash", "shell script"];
const SHELL_WORDS: [&str; 3] = ["shell", "bash", "zsh"];
/// Phrases of a tool that passes a command to a shell.
const SHELL_PHRASES: [&str; 9] = [
    "shell command",
    "bash command",
    "terminal command",
    "shell script",
    "bash script",
    "in the terminal",
    "in a terminal",
    "in a shell",
    "in bash",
];
/// Words for other languages, which our shell reader does not read.
const NOT_SHELL: [&str; 7] = ["powershell", "python", "javascript", "applescript", "lua", "gdscript", "sql"];

const METHOD_NAMES: [&str; 4] = ["method", "http method", "request method", "http verb"];
const METHODS: [&str; 9] = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT"];

/// The arguments of a tool that carry a program, each with its `x-effect` value.
///
/// `decides` says whether the program decides how grave a call is.
pub(super) fn program_arguments(
    schema: &Map<String, Value>,
    definition: &Definition,
    decides: bool,
    notes: &mut Vec<String>,
) -> Vec<(String, Value)> {
    let about = ToolWords::from_definition(definition);
    let (mut marked, mut said) = (Vec::new(), Vec::new());
    let mut with_marks = schema.clone();
    let Some(Value::Object(properties)) = with_marks.get_mut("properties") else { return marked };
    for (name, property) in properties {
        let Some(property) = property.as_object_mut() else { continue };
        if let Some(language) = language(name, property, &about) {
            let effect = if decides { json!({ "kind": language, "decides_class": true }) } else { language.into() };
            property.insert(EFFECT_KEYWORD.to_owned(), effect.clone());
            let and_class = if decides { ", which decides the class of a call" } else { "" };
            said.push(format!("its `{name}` argument is {language} (x-effect){and_class}"));
            marked.push((name.clone(), effect));
        }
    }
    if unenforced_programs(&with_marks).is_empty() {
        notes.append(&mut said);
        return marked;
    }
    notes.extend(
        said.iter().map(|mark| format!("{mark}, but its schema prevents that from being enforced, so it is not read")),
    );
    Vec::new()
}

/// The argument that a tool passes to a shell, if it has one. Such a tool can do anything.
pub(super) fn shell_argument(definition: &Definition) -> Option<String> {
    let about = ToolWords::from_definition(definition);
    let properties = definition.input_schema.get("properties")?.as_object()?;
    let is_shell = |(name, property): &(&String, &Value)| {
        property.as_object().is_some_and(|property| language(name, property, &about) == Some("shell"))
    };
    properties.iter().find(is_shell).map(|(name, _)| name.clone())
}

/// The words of a tool's own description.
struct ToolWords {
    name: Vec<String>,
    all: Vec<String>,
}

impl ToolWords {
    fn from_definition(definition: &Definition) -> Self {
        let name = words(&definition.name);
        let told = [definition.title.as_ref(), definition.description.as_ref()].into_iter().flatten();
        let all = name.iter().cloned().chain(told.flat_map(|text| spoken(text))).collect();
        Self { name, all }
    }

    /// Whether the tool says that it runs what it is given.
    fn runs(&self) -> bool {
        let first = self.all.get(self.name.len());
        !has(&self.name, &LEAVES) && !first.is_some_and(|word| in_list(&LEAVES, word))
    }
}

fn language(name: &str, property: &Map<String, Value>, about: &ToolWords) -> Option<&'static str> {
    if !is_text(property) {
        return None;
    }
    let name = words(name).join(" ");
    let is = |names: &[&str]| names.contains(&name.as_str());
    let told = property.get("description").and_then(Value::as_str).unwrap_or_default();
    let told_words = spoken(told);
    if is(&METHOD_NAMES) {
        return is_method(property, &told_words).then_some("http_method");
    }
    // An argument with a fixed set of values is not parsed.
    if property.contains_key("enum") || property.contains_key("const") || !about.runs() {
        return None;
    }
    if is(&SQL_NAMES) {
        return Some(dialect(&told_words, about));
    }
    if is(&QUERY_NAMES) {
        return is_sql(&told_words, about).then(|| dialect(&told_words, about));
    }
    (is(&SHELL_NAMES) && is_shell(&told_words, about)).then_some("shell")
}

/// A query is SQL if its own description says so, or if the tool says so, runs it and does not search.
fn is_sql(told: &[String], about: &ToolWords) -> bool {
    let other = |word: &String| word.ends_with("ql") && !SQL_WORDS.iter().any(|(known, _)| known == word);
    if has(told, &["natural", "plain", "english"]) || told.iter().chain(&about.name).any(other) {
        return false;
    }
    says_sql(told) || says_sql(&about.all) && !has(&about.name, &SEARCHES) && (told.is_empty() || has(told, &RUNS))
}

fn says_sql(text: &[String]) -> bool {
    let mut said = text.iter().enumerate().filter(|(_, word)| SQL_WORDS.iter().any(|(known, _)| known == word));
    said.any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| text.get(at));
        let after = text.get(at + 1);
        !before.is_some_and(|word| in_list(&NOT_SQL_BEFORE, word))
            && !after.is_some_and(|word| in_list(&NOT_SQL_AFTER, word))
    })
}

/// The one dialect that is named, preferably in the argument's description. If several are named, any dialect is meant.
fn dialect(told: &[String], about: &ToolWords) -> &'static str {
    for text in [told, &about.all] {
        let named = text.iter().filter_map(|word| SQL_WORDS.iter().find(|(known, _)| known == word));
        let mut dialects: Vec<&'static str> = named.map(|(_, dialect)| *dialect).filter(|one| *one != "sql").collect();
        dialects.dedup();
        match dialects.as_slice() {
            [] if has(text, &OTHER_ENGINES) => return "sql",
            [] => {}
            [one] if !has(text, &OTHER_ENGINES) => return one,
            _ => return "sql",
        }
    }
    "sql"
}

fn is_shell(told: &[String], about: &ToolWords) -> bool {
    if has(told, &NOT_SHELL) || has(&about.name, &NOT_SHELL) {
        return false;
    }
    let said = about.all.join(" ");
    let terminal = |word: &String| SHELL_WORDS.contains(&word.as_str()) || word == "terminal";
    has(told, &SHELL_WORDS)
        || about.name.iter().any(terminal)
        || (!has(&about.all, &NOT_SHELL) && SHELL_PHRASES.iter().any(|phrase| said.contains(phrase)))
}

fn is_method(property: &Map<String, Value>, told: &[String]) -> bool {
    let known = |value: &Value| value.as_str().is_some_and(|text| METHODS.contains(&text.to_uppercase().as_str()));
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        return !values.is_empty() && values.iter().all(known);
    }
    let told = told.join(" ");
    ["http method", "http verb", "http request method"].iter().any(|said| told.contains(said))
}

/// Whether the property is a string, or a string or null.
fn is_text(property: &Map<String, Value>) -> bool {
    let texts = |schema: &Map<String, Value>| match schema.get("type") {
        Some(Value::String(named)) => named == "string",
        Some(Value::Array(named)) => named.iter().all(|one| one == "string" || one == "null"),
        _ => false,
    };
    let nothing = |schema: &Map<String, Value>| schema.get("type").is_some_and(|named| named == "null");
    let either = ["anyOf", "oneOf"].iter().find_map(|keyword| property.get(*keyword)).and_then(Value::as_array);
    texts(property)
        || either.is_some_and(|schemas| {
            let mut schemas = schemas.iter().filter_map(Value::as_object).filter(|schema| !nothing(schema)).peekable();
            schemas.peek().is_some() && schemas.all(texts)
        })
}

/// The words of a sentence: `PostgreSQL` is one, and so is `SQL++`.
fn spoken(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !(character.is_alphanumeric() || character == '+'));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

fn has(text: &[String], list: &[&str]) -> bool {
    text.iter().any(|word| in_list(list, word))
}

fn in_list(list: &[&str], word: &str) -> bool {
    list.contains(&word)
}
