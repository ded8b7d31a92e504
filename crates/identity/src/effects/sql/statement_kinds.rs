//! Judges a statement by its first words. Responsible for every kind of statement but queries, and for finding the query inside
//! statements that carry one (`EXPLAIN`, `COPY`). A statement is a read only if every word of it is of a known shape; a statement with
//! an unknown beginning is `unknown`.

use std::borrow::Cow;

use crate::effects::sql::lexer::{SqlToken, SqlTokenKind};
use crate::effects::sql::{SqlStatement, pragma, settings, show};
use crate::effects::{EffectFinding, ProgramEffect, SqlDialect, shown};

/// The first word of a statement, and what it does. Kinds that need a look at the rest are not here.
const BEGINNINGS: &[(&str, ProgramEffect, &str)] = &[
    ("INSERT", ProgramEffect::Write, "INSERT adds rows"),
    ("UPDATE", ProgramEffect::Write, "UPDATE changes rows"),
    ("DELETE", ProgramEffect::Write, "DELETE removes rows"),
    ("MERGE", ProgramEffect::Write, "MERGE changes rows"),
    ("REPLACE", ProgramEffect::Write, "REPLACE overwrites rows"),
    ("UPSERT", ProgramEffect::Write, "UPSERT changes rows"),
    ("TRUNCATE", ProgramEffect::Write, "TRUNCATE removes all rows"),
    ("LOAD", ProgramEffect::Write, "LOAD brings in data or a library"),
    ("REFRESH", ProgramEffect::Write, "REFRESH rewrites a view's rows"),
    ("VACUUM", ProgramEffect::Write, "VACUUM rewrites storage"),
    ("ANALYZE", ProgramEffect::Write, "ANALYZE rewrites statistics"),
    ("ANALYSE", ProgramEffect::Write, "ANALYZE rewrites statistics"),
    ("REINDEX", ProgramEffect::Write, "REINDEX rewrites indexes"),
    ("CLUSTER", ProgramEffect::Write, "CLUSTER rewrites a table"),
    ("OPTIMIZE", ProgramEffect::Write, "OPTIMIZE rewrites a table"),
    ("REPAIR", ProgramEffect::Write, "REPAIR rewrites a table"),
    ("CHECKPOINT", ProgramEffect::Write, "CHECKPOINT writes to storage"),
    ("LOCK", ProgramEffect::Write, "LOCK locks out others"),
    ("UNLOCK", ProgramEffect::Write, "UNLOCK lets go of locks"),
    ("NOTIFY", ProgramEffect::Write, "NOTIFY sends a message"),
    ("FLUSH", ProgramEffect::Write, "FLUSH changes the server's state"),
    ("KILL", ProgramEffect::Write, "KILL ends a session"),
    ("SHUTDOWN", ProgramEffect::Write, "SHUTDOWN stops the server"),
    ("RESTART", ProgramEffect::Write, "RESTART stops the server"),
    ("PURGE", ProgramEffect::Write, "PURGE removes logs"),
    ("STOP", ProgramEffect::Write, "STOP changes replication"),
    ("CHANGE", ProgramEffect::Write, "CHANGE changes replication"),
    ("BINLOG", ProgramEffect::Write, "BINLOG applies events"),
    ("CACHE", ProgramEffect::Write, "CACHE changes the server's state"),
    ("CLONE", ProgramEffect::Write, "CLONE copies a server"),
    ("BACKUP", ProgramEffect::Write, "BACKUP writes files"),
    ("RESTORE", ProgramEffect::Write, "RESTORE overwrites data"),
    ("ATTACH", ProgramEffect::Write, "ATTACH opens or makes a database file"),
    ("DETACH", ProgramEffect::Write, "DETACH takes a database away"),
    ("CREATE", ProgramEffect::Ddl, "CREATE makes an object"),
    ("ALTER", ProgramEffect::Ddl, "ALTER changes an object"),
    ("DROP", ProgramEffect::Ddl, "DROP removes an object"),
    ("GRANT", ProgramEffect::Ddl, "GRANT gives rights"),
    ("REVOKE", ProgramEffect::Ddl, "REVOKE takes rights"),
    ("COMMENT", ProgramEffect::Ddl, "COMMENT changes an object's description"),
    ("REASSIGN", ProgramEffect::Ddl, "REASSIGN changes owners"),
    ("SECURITY", ProgramEffect::Ddl, "SECURITY LABEL changes a label"),
    ("RENAME", ProgramEffect::Ddl, "RENAME changes an object's name"),
    ("IMPORT", ProgramEffect::Ddl, "IMPORT makes objects"),
    ("INSTALL", ProgramEffect::Ddl, "INSTALL adds a plugin"),
    ("UNINSTALL", ProgramEffect::Ddl, "UNINSTALL removes a plugin"),
    ("DECLARE", ProgramEffect::Unknown, "DECLARE leaves a cursor in the session"),
    ("PREPARE", ProgramEffect::Unknown, "PREPARE leaves a statement in the session"),
    ("FETCH", ProgramEffect::Unknown, "FETCH runs a query that was declared elsewhere"),
    ("MOVE", ProgramEffect::Unknown, "MOVE runs a query that was declared elsewhere"),
    ("CLOSE", ProgramEffect::Unknown, "CLOSE changes the session"),
    ("DEALLOCATE", ProgramEffect::Unknown, "DEALLOCATE changes the session"),
    ("SAVEPOINT", ProgramEffect::Unknown, "SAVEPOINT changes the session's transaction"),
    ("RELEASE", ProgramEffect::Unknown, "RELEASE may end a transaction"),
    ("HELP", ProgramEffect::Unknown, "HELP is not known"),
    ("USE", ProgramEffect::Unknown, "USE changes what later names mean"),
    ("CHECKSUM", ProgramEffect::Unknown, "CHECKSUM is not known"),
    ("COMMIT", ProgramEffect::Unknown, "COMMIT ends a transaction that may protect or hold other work"),
    ("END", ProgramEffect::Unknown, "END ends a transaction that may protect or hold other work"),
    ("ROLLBACK", ProgramEffect::Unknown, "ROLLBACK ends a transaction that may protect or hold other work"),
    ("ABORT", ProgramEffect::Unknown, "ABORT ends a transaction that may protect or hold other work"),
    ("LISTEN", ProgramEffect::Unknown, "LISTEN changes the session"),
    ("UNLISTEN", ProgramEffect::Unknown, "UNLISTEN changes the session"),
    ("DISCARD", ProgramEffect::Unknown, "DISCARD changes the session"),
    ("RESET", ProgramEffect::Unknown, "RESET changes the session or the server"),
    ("CHECK", ProgramEffect::Unknown, "CHECK TABLE may repair"),
    ("HANDLER", ProgramEffect::Unknown, "HANDLER reads a table below the level of SQL"),
    ("CALL", ProgramEffect::Unknown, "CALL runs a procedure, which may do anything"),
    ("EXECUTE", ProgramEffect::Unknown, "EXECUTE runs a statement prepared elsewhere"),
    ("EXEC", ProgramEffect::Unknown, "EXEC runs a procedure, which may do anything"),
    ("DO", ProgramEffect::Unknown, "DO runs a program inside the server"),
];

/// The kind of a statement for a reader: its first word, and the second where that tells more.
pub(super) fn name(tokens: &[SqlToken<'_>]) -> Cow<'static, str> {
    let Some(first) = tokens.iter().find(|token| token.kind != SqlTokenKind::Open) else {
        return Cow::Borrowed("nothing");
    };
    if first.kind != SqlTokenKind::Word {
        return Cow::Borrowed("not a statement");
    }
    let known = BEGINNINGS.iter().map(|(word, ..)| *word).chain([
        "SELECT", "WITH", "VALUES", "TABLE", "EXPLAIN", "DESCRIBE", "DESC", "COPY", "PRAGMA", "SET", "BEGIN", "START",
        "SHOW",
    ]);
    known
        .into_iter()
        .find(|word| first.is_word(word))
        .map_or_else(|| Cow::Owned(shown(first.text).into_owned()), Cow::Borrowed)
}

/// What the statement would do.
pub(super) fn judge(statement: SqlStatement<'_>) -> EffectFinding {
    let Some(first) = statement.tokens.first() else { return EffectFinding::read("there is no statement in it") };
    if first.kind == SqlTokenKind::Open {
        return judge_parenthesised(statement);
    }
    if first.kind != SqlTokenKind::Word {
        return EffectFinding::unknown("it does not begin like a statement");
    }
    match first.text.to_ascii_uppercase().as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => statement.judge_query(),
        "EXPLAIN" | "DESCRIBE" | "DESC" => judge_explain(statement),
        "COPY" => judge_copy(statement),
        "SHOW" => show::judge(statement.dialect, statement.tokens),
        "PRAGMA" if matches!(statement.dialect, SqlDialect::Sqlite | SqlDialect::Generic) => {
            pragma::judge(statement.tokens)
        }
        "SET" => settings::judge(statement),
        "BEGIN" | "START" => judge_begin(statement.tokens),
        word => match BEGINNINGS.iter().find(|(beginning, ..)| *beginning == word) {
            Some((_, effect, why)) => EffectFinding::new(*effect, *why),
            None => EffectFinding::unknown(format!("a statement that begins with {} is not known", shown(first.text))),
        },
    }
}

/// `(SELECT …) UNION …`: only a query may stand in parentheses.
fn judge_parenthesised(statement: SqlStatement<'_>) -> EffectFinding {
    let inner = statement.tokens.iter().find(|token| token.kind != SqlTokenKind::Open);
    let query = inner.is_some_and(|token| ["select", "with", "values", "table"].iter().any(|word| token.is_word(word)));
    if query { statement.judge_query() } else { EffectFinding::unknown("what is in the parentheses is not a query") }
}

/// Options of `EXPLAIN`, and their values.
const PLAN_WORDS: &str = " analyze analyse verbose costs buffers format timing summary settings wal generic_plan memory serialize extended \
     partitions query plan on off true false json text yaml xml tree traditional none binary ";

/// `EXPLAIN` only shows a plan, but engines run parts of a statement to plan it. So the planned statement must be a read itself.
fn judge_explain(statement: SqlStatement<'_>) -> EffectFinding {
    let tokens = statement.tokens;
    let is_option = |token: &SqlToken<'_>| {
        token.kind == SqlTokenKind::Comma
            || token.text == "="
            || (token.kind == SqlTokenKind::Word
                && PLAN_WORDS.split(' ').any(|word| token.text.eq_ignore_ascii_case(word)))
    };
    let mut at = 1;
    if let Some(open) = tokens.get(1).filter(|token| token.kind == SqlTokenKind::Open) {
        let close = closing(tokens, 1);
        let options = tokens.get(2..close).unwrap_or_default();
        if !options.iter().any(|token| is_query_word(token)) {
            if !options.iter().all(is_option) {
                return EffectFinding::unknown("EXPLAIN with an option that is not known");
            }
            at = close + 1;
        }
        debug_assert!(open.kind == SqlTokenKind::Open);
    }
    at += tokens.get(at..).unwrap_or_default().iter().take_while(|token| is_option(token)).count();
    let inner = statement.from(at);
    match inner.tokens {
        [first, ..] if first.kind == SqlTokenKind::Open || is_query_word(first) => {
            let finding = kinds_of_query(inner);
            let why = match finding.effect {
                ProgramEffect::Read => finding.why,
                _ => format!("EXPLAIN may run what it plans: {}", finding.why).into(),
            };
            EffectFinding { why, ..finding }
        }
        [] => EffectFinding::unknown("EXPLAIN without a statement"),
        // `DESCRIBE table column`.
        names
            if !tokens.first().is_some_and(|first| first.is_word("explain"))
                && is_plain_names(names)
                && !names.iter().any(|name| BEGINNINGS.iter().any(|(word, ..)| name.is_word(word))) =>
        {
            EffectFinding::read("DESCRIBE reads a table's definition")
        }
        [first, ..] => {
            let inner = BEGINNINGS.iter().find(|(word, ..)| first.is_word(word));
            let effect = inner.map_or(ProgramEffect::Unknown, |(_, effect, _)| *effect);
            EffectFinding::new(effect, "EXPLAIN of a statement that is not a query")
        }
    }
}

fn kinds_of_query(inner: SqlStatement<'_>) -> EffectFinding {
    match inner.tokens.first() {
        Some(first) if first.kind == SqlTokenKind::Open => judge_parenthesised(inner),
        _ => inner.judge_query(),
    }
}

fn is_query_word(token: &SqlToken<'_>) -> bool {
    ["select", "with", "values", "table"].iter().any(|word| token.is_word(word))
}

fn is_plain_names(tokens: &[SqlToken<'_>]) -> bool {
    tokens.len() <= 5
        && tokens.iter().all(|token| {
            matches!(token.kind, SqlTokenKind::Word | SqlTokenKind::Quoted | SqlTokenKind::Dot | SqlTokenKind::Text)
        })
}

fn judge_copy(statement: SqlStatement<'_>) -> EffectFinding {
    let tokens = statement.tokens;
    let of_query = tokens.get(1).is_some_and(|token| token.kind == SqlTokenKind::Open);
    let after_source = if of_query { closing(tokens, 1) + 1 } else { 1 };
    let direction =
        tokens.iter().enumerate().skip(after_source).find(|(_, token)| token.is_word("to") || token.is_word("from"));
    let Some((at, direction)) = direction else { return EffectFinding::unknown("COPY without a direction") };
    if tokens.get(at + 1).is_some_and(|token| token.is_word("program")) {
        return EffectFinding::write("COPY … PROGRAM runs a program on the server");
    }
    if direction.is_word("from") {
        return EffectFinding::write("COPY … FROM adds rows");
    }
    if !tokens.get(at + 1).is_some_and(|token| token.is_word("stdout")) {
        return EffectFinding::write("COPY … TO writes a file on the server");
    }
    let options = tokens.get(at + 2..).unwrap_or_default();
    let plain_options =
        options.iter().all(|token| ["with", "csv", "header", "binary"].iter().any(|word| token.is_word(word)));
    if of_query {
        let query = statement.between(2, after_source - 1);
        let finding = match query.tokens.first() {
            Some(first) if first.kind == SqlTokenKind::Open || is_query_word(first) => kinds_of_query(query),
            Some(first) if ["insert", "update", "delete", "merge"].iter().any(|word| first.is_word(word)) => {
                EffectFinding::write("COPY of a statement that changes rows")
            }
            _ => EffectFinding::unknown("COPY of a statement that is not a query"),
        };
        return if plain_options {
            finding
        } else {
            finding.or_heavier(EffectFinding::unknown("COPY with an option that is not known"))
        };
    }
    let names = tokens.get(1..at).unwrap_or_default();
    if plain_options && is_plain_names(names) && !names.is_empty() {
        return EffectFinding::read("COPY … TO STDOUT reads a table");
    }
    EffectFinding::unknown("COPY with an option that is not known")
}

/// Where the parenthesis at `open` is closed, or the end.
fn closing(tokens: &[SqlToken<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            SqlTokenKind::Open => depth += 1,
            SqlTokenKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// A statement that begins a transaction leaves it open, because no read ends one. Later statements of the session are then not committed,
/// and MySQL commits the transaction that was open before.
fn judge_begin(tokens: &[SqlToken<'_>]) -> EffectFinding {
    let locks = |token: &SqlToken<'_>| ["write", "immediate", "exclusive"].iter().any(|word| token.is_word(word));
    if tokens.iter().any(locks) {
        return EffectFinding::write("a transaction that may write, or that locks, is begun");
    }
    EffectFinding::unknown("BEGIN or START leaves a transaction open, in which later statements are not committed")
}
