//! What a statement does by how it begins. Responsible for every kind of statement but queries, and for finding the query or
//! statement inside those that carry one (`EXPLAIN`, `DECLARE`, `PREPARE`, `COPY`). A beginning that is not known is `unknown`.

use std::borrow::Cow;

use crate::effects::sql::lexer::{Kind, Token};
use crate::effects::sql::{Statement, pragma, settings};
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
    ("SHOW", Effect::Read, "SHOW reads a setting or a catalog"),
    ("FETCH", Effect::Unknown, "FETCH runs a query that was declared elsewhere"),
    ("MOVE", Effect::Unknown, "MOVE runs a query that was declared elsewhere"),
    ("CLOSE", Effect::Read, "CLOSE ends a cursor"),
    ("DEALLOCATE", Effect::Read, "DEALLOCATE forgets a prepared statement"),
    ("SAVEPOINT", Effect::Read, "SAVEPOINT marks a place in a transaction"),
    ("RELEASE", Effect::Read, "RELEASE forgets a savepoint"),
    ("HELP", Effect::Read, "HELP reads the manual"),
    ("USE", Effect::Read, "USE chooses a database"),
    ("CHECKSUM", Effect::Read, "CHECKSUM reads a table"),
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
        "DECLARE", "PREPARE",
    ]);
    known
        .into_iter()
        .find(|word| first.is_word(word))
        .map_or_else(|| Cow::Owned(shown(first.text).into_owned()), Cow::Borrowed)
}

/// What the statement would do.
pub(super) fn judge(statement: Statement<'_>, depth: usize) -> Finding {
    let Some(first) = statement.tokens.first() else { return Finding::read("there is no statement in it") };
    if first.kind == Kind::Open {
        return judge_parenthesised(statement);
    }
    if first.kind != Kind::Word {
        return Finding::unknown("it does not begin like a statement");
    }
    match first.text.to_ascii_uppercase().as_str() {
        "SELECT" | "WITH" | "VALUES" | "TABLE" => statement.judge_query(),
        "EXPLAIN" | "DESCRIBE" | "DESC" => judge_explain(statement, depth),
        "COPY" => judge_copy(statement, depth),
        "PRAGMA" if matches!(statement.dialect, Dialect::Sqlite | Dialect::Generic) => pragma::judge(statement.tokens),
        "SET" => settings::judge(statement),
        "BEGIN" | "START" => judge_begin(statement),
        "DECLARE" => judge_declare(statement),
        "PREPARE" => judge_prepare(statement, depth),
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

/// A plan is only looked at, unless `ANALYZE` runs it. MySQL may run subqueries and functions to plan.
fn judge_explain(statement: Statement<'_>, depth: usize) -> Finding {
    let tokens = statement.tokens;
    let mut at = 1;
    let mut analyze = false;
    if tokens.get(at).is_some_and(|token| token.kind == Kind::Open) && statement.dialect != Dialect::Sqlite {
        let close = closing(tokens, at);
        let options = tokens.get(at..close).unwrap_or_default();
        let asked = options.iter().position(|token| token.is_word("analyze") || token.is_word("analyse"));
        // `ANALYZE false` is rare enough to be taken for `ANALYZE`.
        if asked.is_some() || !options.iter().any(|token| token.is_word("select")) {
            analyze = asked.is_some();
            at = close + 1;
        }
    }
    while let Some(token) = tokens.get(at) {
        if token.is_word("analyze") || token.is_word("analyse") {
            analyze = true;
        } else if token.is_word("format") || token.is_word("for") {
            at += 2;
        } else if !["verbose", "extended", "partitions", "query", "plan", "logical", "physical"]
            .iter()
            .any(|word| token.is_word(word))
        {
            break;
        }
        at += 1;
    }
    let inner = statement.from(at);
    let planned = inner.tokens.first().is_some_and(|token| {
        token.kind == Kind::Open || BEGINNINGS.iter().any(|(word, ..)| token.is_word(word)) || is_query_word(token)
    });
    if !planned {
        return Finding::read("DESCRIBE reads a table's definition");
    }
    if analyze {
        let finding = inner.judge(depth + 1);
        let why = if finding.effect == Effect::Read {
            finding.why
        } else {
            format!("EXPLAIN ANALYZE runs the statement: {}", finding.why).into()
        };
        return Finding { why, ..finding };
    }
    if matches!(statement.dialect, Dialect::MySql | Dialect::Generic)
        && inner.tokens.first().is_some_and(|token| token.kind == Kind::Open || is_query_word(token))
    {
        return inner.judge(depth + 1);
    }
    Finding::read("EXPLAIN shows a plan and does not run it")
}

fn is_query_word(token: &Token<'_>) -> bool {
    ["select", "with", "values", "table", "declare"].iter().any(|word| token.is_word(word))
}

fn judge_copy(statement: Statement<'_>, depth: usize) -> Finding {
    let tokens = statement.tokens;
    let after_source =
        if tokens.get(1).is_some_and(|token| token.kind == Kind::Open) { closing(tokens, 1) + 1 } else { 1 };
    let direction =
        tokens.iter().enumerate().skip(after_source).find(|(_, token)| token.is_word("to") || token.is_word("from"));
    let Some((at, direction)) = direction else { return Finding::unknown("COPY without a direction") };
    let program = tokens.get(at + 1).is_some_and(|token| token.is_word("program"));
    if program {
        return Finding::write("COPY … PROGRAM runs a program on the server");
    }
    if direction.is_word("from") {
        return Finding::write("COPY … FROM adds rows");
    }
    if !tokens.get(at + 1).is_some_and(|token| token.is_word("stdout") || token.is_word("stdin")) {
        return Finding::write("COPY … TO writes a file on the server");
    }
    if after_source > 1 {
        statement.between(2, after_source - 1).judge(depth + 1)
    } else {
        Finding::read("COPY … TO STDOUT reads a table")
    }
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

/// To begin a transaction is nothing, but to begin one that may write is to leave a protection behind.
fn judge_begin(statement: Statement<'_>) -> Finding {
    let allowed = [
        "begin",
        "start",
        "transaction",
        "work",
        "deferred",
        "read",
        "only",
        "isolation",
        "level",
        "serializable",
        "repeatable",
        "committed",
        "uncommitted",
        "deferrable",
        "not",
        "with",
        "consistent",
        "snapshot",
    ];
    let plain = statement
        .tokens
        .iter()
        .all(|token| token.kind == Kind::Comma || allowed.iter().any(|word| token.is_word(word)));
    let is_start = statement.tokens.first().is_some_and(|token| token.is_word("start"));
    let transaction = !is_start || statement.tokens.get(1).is_some_and(|token| token.is_word("transaction"));
    if plain && transaction {
        return Finding::read("BEGIN starts a transaction");
    }
    if statement
        .tokens
        .iter()
        .any(|token| token.is_word("write") || token.is_word("immediate") || token.is_word("exclusive"))
    {
        return Finding::write("a transaction that may write, or that locks, is begun");
    }
    Finding::unknown("BEGIN or START of something that is not known")
}

fn judge_declare(statement: Statement<'_>) -> Finding {
    let cursor = statement.tokens.iter().position(|token| token.is_word("cursor"));
    let query = cursor.and_then(|cursor| {
        statement.tokens.iter().skip(cursor).position(|token| token.is_word("for")).map(|by| cursor + by + 1)
    });
    match query {
        Some(query)
            if statement.tokens.get(query).is_some_and(|token| token.kind == Kind::Open || is_query_word(token)) =>
        {
            statement.from(query).judge_query()
        }
        _ => Finding::unknown("DECLARE of something that is not a cursor over a query"),
    }
}

/// `PREPARE name (types) AS statement`: what is prepared may be run later, so it counts now.
fn judge_prepare(statement: Statement<'_>, depth: usize) -> Finding {
    match statement.tokens.iter().position(|token| token.is_word("as")) {
        Some(at) if at <= 40 => statement.from(at + 1).judge(depth + 1),
        _ => Finding::unknown("PREPARE of a statement that is not in the text"),
    }
}
