//! `servanda identity effects`: says what statements would do, as the behaviour gate reads them.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use servanda_identity::effects::{ProgramLanguage, classify};

use super::lines::{self, LineAnswer};
use crate::{failure::CommandFailure, screen::Screen};

/// A statement; other members are ignored.
#[derive(Deserialize)]
struct StatementInput {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    sql: Option<String>,
    #[serde(default)]
    shell: Option<String>,
    #[serde(default)]
    dialect: Option<String>,
}

pub(super) fn run(file: &Path, screen: Screen) -> Result<(), CommandFailure> {
    lines::answer_each(file, screen, answer)
}

fn answer(line: &[u8]) -> LineAnswer {
    let statement: StatementInput = match serde_json::from_slice(line) {
        Ok(statement) => statement,
        Err(error) => return unreadable(None, format!("it is no statement: {}", lines::reason(&error))),
    };
    let (text, fallback) = match (&statement.sql, &statement.shell) {
        (Some(sql), None) => (sql, "sql"),
        (None, Some(shell)) => (shell, "shell"),
        _ => return unreadable(statement.id, "it needs either `sql` or `shell`".to_owned()),
    };
    let Some(language) = ProgramLanguage::parse(statement.dialect.as_deref().unwrap_or(fallback)) else {
        let known = "`sql`, `postgresql`, `sqlite`, `mysql`, `bash`";
        return unreadable(statement.id, format!("its `dialect` is not known; known are {known}"));
    };
    let verdict = classify(language, text);
    let line = json!({ "effect": verdict.effect, "why": verdict.why });
    LineAnswer { line: with_id(statement.id, line), fault: None }
}

/// A statement that could not be read may do anything.
fn unreadable(id: Option<Value>, fault: String) -> LineAnswer {
    let line = json!({ "effect": "unknown", "why": format!("the line could not be read: {fault}") });
    LineAnswer { line: with_id(id, line), fault: Some(fault) }
}

fn with_id(id: Option<Value>, mut line: Value) -> Value {
    if let (Some(id), Some(members)) = (id, line.as_object_mut()) {
        members.insert("id".to_owned(), id);
    }
    line
}
