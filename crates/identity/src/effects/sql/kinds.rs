//! Judges a statement by its first words. Responsible for every kind of statement but queries, and for finding the query inside
//! statements that carry one (`EXPLAIN`, `COPY`). A statement is a read only if every word of it is of a known shape; a statement with
//! an unknown beginning is `unknown`.

use std::borrow::Cow;

use crate::effects::sql::lexer::{Kind, Token};
use crate::effects::sql::{Statement, pragma, settings, show};
use crate::effects::{Dialect, Effect, Finding, shown};

/// The first word of a statement, and what it does. Kinds that need a look at the rest are not here.
const BEGINNINGS: &[(&str, Effect, &str)] = &[
    ("INSERT", Effect::Write, "INSERT adds rows"),
    ("UPDATE", Effect::Write, "UPDATE changes rows"),
    ("DELETE", Effect::Write, "DELETE removes rows"),
    ("MERGE", Effect::Write, "MERGE changes rows"),
    ("REPLACE", Effect::Write, "REPLACE overwrites rows"),
    ("UPSERT", Effect::Write, "UPSERT changes rows"),
    ("TRUNCATE", Effect::Write, "TRUNCATE removes all rows"),
    ("LOAD", Effect::Write, "LOAD brings in data or a library"),
    ("REFRESH", Effect::Write, "REFRESH rewrites a view's rows"),
    ("VACUUM", Effect::Write, "VACUUM rewrites storage"),
    ("ANALYZE", Effect::Write, "ANALYZE rewrites statistics"),
    ("ANALYSE", Effect::Write, "ANALYZE rewrites statistics"),
    ("REINDEX", Effect::Write, "REINDEX rewrites indexes"),
    ("CLUSTER", Effect::Write, "CLUSTER rewrites a table"),
    ("OPTIMIZE", Effect::Write, "OPTIMIZE rewrites a table"),
    ("REPAIR", Effect::Write, "REPAIR rewrites a table"),
    ("CHECKPOINT", Effect::Write, "CHECKPOINT writes to storage"),
    ("LOCK", Effect::Write, "LOCK locks out others"),
    ("UNLOCK", Effect::Write, "UNLOCK lets go of locks"),
    ("NOTIFY", Effect::Write, "NOTIFY sends a message"),
    ("FLUSH", Effect::Write, "FLUSH changes the server's state"),
    ("KILL", Effect::Write, "KILL ends a session"),
    ("SHUTDOWN", Effect::Write, "SHUTDOWN stops the server"),
    ("RESTART", Effect::Write, "RESTART stops the server"),
    ("PURGE", Effect::Write, "PURGE removes logs"),
    ("STOP", Effect::Write, "STOP changes replication"),
    ("CHANGE", Effect::Write, "CHANGE changes replication"),
    ("BINLOG", Effect::Write, "BINLOG applies events"),
    ("CACHE", Effect::Write, "CACHE changes the server's state"),
    ("CLONE", Effect::Write, "CLONE copies a server"),
    ("BACKUP", Effect::Write, "BACKUP writes files"),
    ("RESTORE", Effect::Write, "RESTORE overwrites data"),
    ("ATTACH", Effect::Write, "ATTACH opens or makes a database file"),
    ("DETACH", Effect::Write, "DETACH takes a database away"),
    ("CREATE", Effect::Ddl, "CREATE makes an object"),
    ("ALTER", Effect::Ddl, "ALTER changes an object"),
    ("DROP", Effect::Ddl, "DROP removes an object"),
    ("GRANT", Effect::Ddl, "GRANT gives rights"),
    ("REVOKE", Effect::Ddl, "REVOKE takes rights"),
    ("COMMENT", Effect::Ddl, "COMMENT changes an object's description"),
    ("REASSIGN", Effect::Ddl, "REASSIGN changes owners"),
    ("SECURITY", Effect::Ddl, "SECURITY LABEL changes a label"),
    ("RENAME", Effect::Ddl, "RENAME changes an object's name"),
    ("IMPORT", Effect::Ddl, "IMPORT makes objects"),
    ("INSTALL", Effect::Ddl, "INSTALL adds a plugin"),
    ("UNINSTALL", Effect::Ddl, "UNINSTALL removes a plugin"),
    ("DECLARE", Effect::Unknown, "DECLARE leaves a cursor in the session"),
    ("PREPARE", Effect::Unknown, "PREPARE leaves a statement in the session"),
    ("FETCH", Effect::Unknown, "FETCH runs a query that was declared elsewhere"),
    ("MOVE", Effect::Unknown, "MOVE runs a query that was declared elsewhere"),
    ("CLOSE", Effect::Unknown, "CLOSE changes the session"),
    ("DEALLOCATE", Effect::Unknown, "DEALLOCATE changes the session"),
    ("SAVEPOINT", Effect::Unknown, "SAVEPOINT changes the session's transaction"),
    ("RELEASE", Effect::Unknown, "RELEASE may end a transaction"),
    ("HELP", Effect::Unknown, "HELP is not known"),
    ("USE", Effect::Unknown, "USE changes what later names mean"),
    ("CHECKSUM", Effect::Unknown, "CHECKSUM is not known"),
    ("COMMIT", Effect::Unknown, "COMMIT ends a transaction that may protect or hold other work"),
    ("END", Effect::Unknown, "END ends a transaction that may protect or hold other work"),
    ("ROLLBACK", Effect::Unknown, "ROLLBACK ends a transaction that may protect or hold other work"),
    ("ABORT", Effect::Unknown, "ABORT ends a transaction that may protect or hold other work"),
    ("LISTEN", Effect::Unknown, "LISTEN changes the session"),
    ("UNLISTEN", Effect::Unknown, "UNLISTEN changes the session"),
    ("DISCARD", Effect::Unknown, "DISCARD changes the session"),
    ("RESET", Effect::Unknown, "RESET changes the session or the server"),
    ("CHECK", Effect::Unknown, "CHECK TABLE may repair"),
    ("HANDLER", Effect::Unknown, "HANDLER reads a table below the level of SQL"),
    ("CALL", Effect::Unknown, "CALL runs a procedure, which may do anything"),
    ("EXECUTE", Effect::Unknown, "EXECUTE runs a statement prepared elsewhere"),
    ("EXEC", Effect::Unknown, "EXEC runs a procedure, which may do anything"),
    ("DO", Effect::Unknown, "DO runs a program inside the server"),
];

/// The kind of a statement for a reader: its first word, and the second where that tells more.
pub(super) fn name(tokens: &[Token<'_>]) -> Cow<'static, str> {
    let Some(first) = tokens.iter().find(|token| token.kind != Kind::Open) else { return Cow::Borrowed("nothing") };
    if first.kind != Kind::Word {
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
pub(super) fn judge(statement: Statement<'_>) -> Finding {
    let Some(first) = statement.tokens.first() else { return Finding::read("there is no statement in it") };
    if first.kind == Kind::Open {
        return judge_parenthesised(statement);
    }
    if first.kind != Kind::Word {
        return Finding::unknown("it does not begin like a statement");
    }
    match first.text.to_ascii_uppercase().as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => statement.judge_query(),
        "EXPLAIN" | "DESCRIBE" | "DESC" => judge_explain(statement),
        "COPY" => judge_copy(statement),
        "SHOW" => show::judge(statement.dialect, statement.tokens),
        "PRAGMA" if matches!(statement.dialect, Dialect::Sqlite | Dialect::Generic) => pragma::judge(statement.tokens),
        "SET" => settings::judge(statement),
        "BEGIN" | "START" => judge_begin(statement.tokens),
        word => match BEGINNINGS.iter().find(|(beginning, ..)| *beginning == word) {
            Some((_, effect, why)) => Finding::new(*effect, *why),
            None => Finding::unknown(format!("a statement that begins with {} is not known", shown(first.text))),
        },
    }
}

/// `(SELECT …) UNION …`: only a query may stand in parentheses.
fn judge_parenthesised(statement: Statement<'_>) -> Finding {
    let inner = statement.tokens.iter().find(|token| token.kind != Kind::Open);
    let query = inner.is_some_and(|token| ["select", "with", "values", "table"].iter().any(|word| token.is_word(word)));
    if query { statement.judge_query() } else { Finding::unknown("what is in the parentheses is not a query") }
}

/// Options of `EXPLAIN`, and their values.
const PLAN_WORDS: &str = " analyze analyse verbose costs buffers format timing summary settings wal generic_plan memory serialize extended \
     partitions query plan on off true false json text yaml xml tree traditional none binary ";

/// `EXPLAIN` only shows a plan, but engines run parts of a statement to plan it. So the planned statement must be a read itself.
fn judge_explain(statement: Statement<'_>) -> Finding {
    let tokens = statement.tokens;
    let is_option = |token: &Token<'_>| {
        token.kind == Kind::Comma
            || token.text == "="
            || (token.kind == Kind::Word && PLAN_WORDS.split(' ').any(|word| token.text.eq_ignore_ascii_case(word)))
    };
    let mut at = 1;
    if let Some(open) = tokens.get(1).filter(|token| token.kind == Kind::Open) {
        let close = closing(tokens, 1);
        let options = tokens.get(2..close).unwrap_or_default();
        if !options.iter().any(|token| is_query_word(token)) {
            if !options.iter().all(is_option) {
                return Finding::unknown("EXPLAIN with an option that is not known");
            }
            at = close + 1;
        }
        debug_assert!(open.kind == Kind::Open);
    }
    at += tokens.get(at..).unwrap_or_default().iter().take_while(|token| is_option(token)).count();
    let inner = statement.from(at);
    match inner.tokens {
        [first, ..] if first.kind == Kind::Open || is_query_word(first) => {
            let finding = kinds_of_query(inner);
            let why = match finding.effect {
                Effect::Read => finding.why,
                _ => format!("EXPLAIN may run what it plans: {}", finding.why).into(),
            };
            Finding { why, ..finding }
        }
        [] => Finding::unknown("EXPLAIN without a statement"),
        // `DESCRIBE table column`.
        names
            if !tokens.first().is_some_and(|first| first.is_word("explain"))
                && is_plain_names(names)
                && !names.iter().any(|name| BEGINNINGS.iter().any(|(word, ..)| name.is_word(word))) =>
        {
            Finding::read("DESCRIBE reads a table's definition")
        }
        [first, ..] => {
            let inner = BEGINNINGS.iter().find(|(word, ..)| first.is_word(word));
            let effect = inner.map_or(Effect::Unknown, |(_, effect, _)| *effect);
            Finding::new(effect, "EXPLAIN of a statement that is not a query")
        }
    }
}

fn kinds_of_query(inner: Statement<'_>) -> Finding {
    match inner.tokens.first() {
        Some(first) if first.kind == Kind::Open => judge_parenthesised(inner),
        _ => inner.judge_query(),
    }
}

fn is_query_word(token: &Token<'_>) -> bool {
    ["select", "with", "values", "table"].iter().any(|word| token.is_word(word))
}

fn is_plain_names(tokens: &[Token<'_>]) -> bool {
    tokens.len() <= 5
        && tokens.iter().all(|token| matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Dot | Kind::Text))
}

fn judge_copy(statement: Statement<'_>) -> Finding {
    let tokens = statement.tokens;
    let of_query = tokens.get(1).is_some_and(|token| token.kind == Kind::Open);
    let after_source = if of_query { closing(tokens, 1) + 1 } else { 1 };
    let direction =
        tokens.iter().enumerate().skip(after_source).find(|(_, token)| token.is_word("to") || token.is_word("from"));
    let Some((at, direction)) = direction else { return Finding::unknown("COPY without a direction") };
    if tokens.get(at + 1).is_some_and(|token| token.is_word("program")) {
        return Finding::write("COPY … PROGRAM runs a program on the server");
    }
    if direction.is_word("from") {
        return Finding::write("COPY … FROM adds rows");
    }
    if !tokens.get(at + 1).is_some_and(|token| token.is_word("stdout")) {
        return Finding::write("COPY … TO writes a file on the server");
    }
    let options = tokens.get(at + 2..).unwrap_or_default();
    let plain_options =
        options.iter().all(|token| ["with", "csv", "header", "binary"].iter().any(|word| token.is_word(word)));
    if of_query {
        let query = statement.between(2, after_source - 1);
        let finding = match query.tokens.first() {
            Some(first) if first.kind == Kind::Open || is_query_word(first) => kinds_of_query(query),
            Some(first) if ["insert", "update", "delete", "merge"].iter().any(|word| first.is_word(word)) => {
                Finding::write("COPY of a statement that changes rows")
            }
            _ => Finding::unknown("COPY of a statement that is not a query"),
        };
        return if plain_options {
            finding
        } else {
            finding.or_heavier(Finding::unknown("COPY with an option that is not known"))
        };
    }
    let names = tokens.get(1..at).unwrap_or_default();
    if plain_options && is_plain_names(names) && !names.is_empty() {
        return Finding::read("COPY … TO STDOUT reads a table");
    }
    Finding::unknown("COPY with an option that is not known")
}

/// Where the parenthesis at `open` is closed, or the end.
fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
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
fn judge_begin(tokens: &[Token<'_>]) -> Finding {
    let locks = |token: &Token<'_>| ["write", "immediate", "exclusive"].iter().any(|word| token.is_word(word));
    if tokens.iter().any(locks) {
        return Finding::write("a transaction that may write, or that locks, is begun");
    }
    Finding::unknown("BEGIN or START leaves a transaction open, in which later statements are not committed")
}
