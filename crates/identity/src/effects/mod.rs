//! What a program among the arguments would do: SQL, shell text, an HTTP request, a file path. Responsible for saying `read`,
//! `write`, `ddl` or `unknown` and which statement, function or command made it so. It does not decide anything, does no I/O, and
//! never guesses: what it does not understand is `unknown`, which the gates treat as a change.
//!
//! A `why` names kinds, functions and commands, never literals: arguments may hold secrets.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

mod http;
mod path;
mod shell;
mod sql;
#[cfg(test)]
mod tests;
mod url;

pub use http::{asks_for_another_method, breaks_out_of_request, classify_request, is_safe_method};
pub use path::{NormalPath, PathRefusal, PathRoots, normalise};
pub use url::{UrlDestination, UrlRefusal, UrlRules};

/// What running a program would do to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramEffect {
    /// It changes nothing.
    Read,
    /// It changes data, files, settings or locks.
    Write,
    /// It changes the structure: tables, roles, rights.
    Ddl,
    /// The text does not tell.
    Unknown,
}

impl ProgramEffect {
    /// Whether a gate must treat it as a change.
    pub fn may_change(self) -> bool {
        self != Self::Read
    }

    /// A proven change outweighs an unknown effect; both outweigh a read.
    fn weight(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Unknown => 1,
            Self::Write => 2,
            Self::Ddl => 3,
        }
    }
}

impl fmt::Display for ProgramEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Ddl => "ddl",
            Self::Unknown => "unknown",
        })
    }
}

/// The language of an argument, as a contract names it in `x-effect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramLanguage {
    /// SQL of a dialect.
    Sql(SqlDialect),
    /// Bash, and `sh` as its subset.
    Shell,
}

impl ProgramLanguage {
    /// The language with this name: a dialect (`postgresql`, `sqlite`, `mysql`), `sql` for any, `shell` or `bash`.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "sql" | "generic" => Self::Sql(SqlDialect::Generic),
            "postgres" | "postgresql" => Self::Sql(SqlDialect::Postgres),
            "sqlite" => Self::Sql(SqlDialect::Sqlite),
            "mysql" | "mariadb" => Self::Sql(SqlDialect::MySql),
            "shell" | "bash" | "sh" => Self::Shell,
            _ => return None,
        })
    }

    /// Its name, as a contract writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sql(SqlDialect::Generic) => "sql",
            Self::Sql(SqlDialect::Postgres) => "postgresql",
            Self::Sql(SqlDialect::Sqlite) => "sqlite",
            Self::Sql(SqlDialect::MySql) => "mysql",
            Self::Shell => "shell",
        }
    }
}

/// The dialect of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SqlDialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
    /// MySQL and MariaDB.
    MySql,
    /// Not stated: a text must be harmless on every engine.
    Generic,
}

/// The limits of a reader. Beyond a limit the answer is `unknown`.
#[derive(Clone, Copy, Debug)]
pub struct ProgramLimits {
    /// Bytes of the text.
    pub text_bytes_max: usize,
    /// Statements of SQL, or commands of shell text.
    pub statements_max: usize,
    /// Tokens or nodes.
    pub tokens_max: usize,
    /// How deep a parser may go, and how deep a program may hold another (`sh -c`, `find -exec`, `eval`).
    pub depth_max: usize,
}

impl ProgramLimits {
    /// Enough for what people write, and small enough for a thread's stack.
    pub const DEFAULT: Self =
        Self { text_bytes_max: 256 * 1024, statements_max: 1_000, tokens_max: 50_000, depth_max: 30 };
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a text would do, and what decided that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProgramVerdict {
    /// What it would do.
    pub effect: ProgramEffect,
    /// A sentence that names the statement kind, the function or the command. Never a literal of the text.
    pub why: Cow<'static, str>,
    /// Which statement or command decided; `None` if the text as a whole could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<StatementRef>,
}

/// A statement or command of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatementRef {
    /// Counted from 0.
    pub index: usize,
    /// `SELECT`, `DELETE`, `rm`: what kind it is.
    pub kind: Cow<'static, str>,
}

/// What `text` would do if it were run.
pub fn classify(language: ProgramLanguage, text: &str) -> ProgramVerdict {
    classify_within(language, text, &ProgramLimits::DEFAULT)
}

/// [`classify`] with the caller's limits.
pub fn classify_within(language: ProgramLanguage, text: &str, limits: &ProgramLimits) -> ProgramVerdict {
    if text.len() > limits.text_bytes_max {
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            format!("the text is longer than {} bytes", limits.text_bytes_max),
        );
    }
    if text.contains('\0') {
        // C programs end a text at a NUL; others do not.
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            "the text holds a NUL character, which engines read differently",
        );
    }
    match language {
        ProgramLanguage::Sql(dialect) => sql::classify(dialect, text, limits),
        ProgramLanguage::Shell => shell::classify(text, limits),
    }
}

impl ProgramVerdict {
    fn for_text(effect: ProgramEffect, why: impl Into<Cow<'static, str>>) -> Self {
        Self { effect, why: why.into(), statement: None }
    }

    /// The heavier of two; the earlier one if they weigh the same.
    fn or_heavier(self, other: Self) -> Self {
        if other.effect.weight() > self.effect.weight() { other } else { self }
    }
}

/// What is known about one part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EffectFinding {
    effect: ProgramEffect,
    why: Cow<'static, str>,
}

impl EffectFinding {
    fn new(effect: ProgramEffect, why: impl Into<Cow<'static, str>>) -> Self {
        Self { effect, why: why.into() }
    }
    fn read(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProgramEffect::Read, why)
    }
    fn write(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProgramEffect::Write, why)
    }
    fn unknown(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProgramEffect::Unknown, why)
    }
    fn or_heavier(self, other: Self) -> Self {
        if other.effect.weight() > self.effect.weight() { other } else { self }
    }
}

/// A name from the text in a form that may be shown: short and printable.
fn shown(name: &str) -> Cow<'_, str> {
    const SHOWN_CHARS_MAX: usize = 64;
    if name.len() <= SHOWN_CHARS_MAX && name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(name);
    }
    let printable = |c: char| if c.is_alphanumeric() || c.is_ascii_graphic() { c } else { '?' };
    Cow::Owned(name.chars().take(SHOWN_CHARS_MAX).map(printable).collect())
}
