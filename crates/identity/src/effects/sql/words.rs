//! The second reader of queries: what the words of a query, strings and comments apart, can still prove. It finds what must change
//! something whatever the grammar around it, and, for a query that the parser does not know, whether any of its words could. A query
//! can only write through a data-modifying part, `INTO`, a row lock or a function, and each of these is made of words that are seen
//! here; so it claims nothing about what it has not looked at.

use crate::effects::sql::functions::{self, Called};
use crate::effects::sql::lexer::{Kind, Token};
use crate::effects::{Dialect, Effect, Finding};

/// What in this query certainly changes something, found without a grammar.
pub(super) fn hazard(dialect: Dialect, tokens: &[Token<'_>]) -> Option<Finding> {
    let mut depth = 0_usize;
    let starts_with = tokens.first().is_some_and(|first| first.is_word("with"));
    for (at, token) in tokens.iter().enumerate() {
        let ahead = |by: usize| tokens.get(at + by);
        let next_is = |by: usize, word: &str| ahead(by).is_some_and(|token| token.is_word(word));
        let previous = at.checked_sub(1).and_then(|at| tokens.get(at));
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Word => {}
            _ => continue,
        }
        if token.kind != Kind::Word || previous.is_some_and(|token| token.kind == Kind::Dot || token.is_word("as")) {
            continue;
        }
        let opens = previous.is_some_and(|token| token.kind == Kind::Open);
        let leads = starts_with && depth == 0 && at > 0;
        if (opens || leads)
            && let Some(verb) = modifying_verb(token, ahead(1))
        {
            return Some(Finding::write(format!("{verb} inside WITH or a subquery changes rows")));
        }
        if token.is_word("into") {
            return Some(into(dialect, ahead(1)));
        }
        if token.is_word("for")
            && (next_is(1, "update")
                || next_is(1, "share")
                || (next_is(1, "no") && next_is(2, "key"))
                || (next_is(1, "key") && next_is(2, "share")))
        {
            return Some(Finding::write("SELECT … FOR UPDATE or FOR SHARE locks rows"));
        }
        if token.is_word("lock") && next_is(1, "in") && next_is(2, "share") {
            return Some(Finding::write("SELECT … LOCK IN SHARE MODE locks rows"));
        }
    }
    None
}

fn modifying_verb(token: &Token<'_>, next: Option<&Token<'_>>) -> Option<&'static str> {
    let next = next?;
    let named = matches!(next.kind, Kind::Word | Kind::Quoted);
    let verbs = [
        ("insert", "INSERT", named),
        ("update", "UPDATE", named),
        ("delete", "DELETE", named),
        ("merge", "MERGE", named),
        ("replace", "REPLACE", named),
    ];
    verbs.into_iter().find(|(word, _, fits)| *fits && token.is_word(word)).map(|(_, verb, _)| verb)
}

/// `SELECT … INTO` makes a table; in MySQL it writes a file or sets a variable.
fn into(dialect: Dialect, next: Option<&Token<'_>>) -> Finding {
    if next.is_some_and(|next| next.is_word("outfile") || next.is_word("dumpfile")) {
        return Finding::write("SELECT … INTO OUTFILE writes a file");
    }
    if dialect == Dialect::MySql && next.is_some_and(|next| next.text.starts_with('@')) {
        return Finding::unknown("SELECT … INTO sets variables of the session");
    }
    Finding::new(Effect::Ddl, "SELECT … INTO creates a table")
}

/// Whether an operator is not one of PostgreSQL's own.
pub(super) fn foreign_operator(dialect: Dialect, tokens: &[Token<'_>]) -> Option<Finding> {
    if dialect != Dialect::Postgres {
        return None;
    }
    let foreign = tokens.iter().find(|token| token.kind == Kind::Sign && is_foreign(token.text))?;
    Some(Finding::unknown(format!(
        "uses the operator {}, which is not one of PostgreSQL's own",
        crate::effects::shown(foreign.text)
    )))
}

fn is_foreign(sign: &str) -> bool {
    if functions::is_builtin_operator(sign) || !sign.bytes().all(|byte| b"+-*/<>=~!@#%^&|?`".contains(&byte)) {
        return false;
    }
    // `a *-1` and `count(*)=-1` are two operators: a trailing sign binds to what follows.
    let head = sign.trim_end_matches(['-', '+', '@', '~', '|', '/']);
    !functions::is_builtin_operator(head) && !head.is_empty()
}

/// Words that no function can have for a name, and that may stand before a parenthesis.
const RESERVED: &str = "all and any array as asc between both by case cast check collate constraint cross default desc distinct \
    else end except exists false fetch for foreign from full group grouping having ilike in inner intersect into is isnull join \
    lateral leading left like limit natural not notnull null offset on only or order outer overlaps primary references returning right \
    row select similar some symmetric table tablesample then to trailing true union unique using values variadic when where window \
    with bit char character dec decimal float int integer bigint smallint interval national nchar numeric real time timestamp varchar \
    varying precision xmlattributes xmlnamespaces";
/// Words of MySQL and SQLite only; elsewhere they may be anybody's function.
const RESERVED_ELSEWHERE: &str = "div xor rlike regexp glob match binary index key rows indexed";
/// Words that are grammar only after what stands beside them here; `)` is a closing parenthesis.
const AFTER: &[(&str, &[&str])] = &[
    ("over", &[")"]),
    ("filter", &[")"]),
    ("against", &[")"]),
    ("repeatable", &[")"]),
    ("materialized", &["as", "not"]),
    ("sets", &["grouping"]),
    ("cube", &["by", ",", "("]),
    ("rollup", &["by", ",", "("]),
    ("first", &["fetch"]),
    ("next", &["fetch"]),
    ("columns", &[")", "passing"]),
    ("ordinality", &["with"]),
];

/// What of a query that the parser does not know might change something: the first function that is not known to be harmless, or
/// a shape that is not understood. `None` means that no word of it can.
pub(super) fn doubt(dialect: Dialect, tokens: &[Token<'_>]) -> Option<Finding> {
    if !balanced(tokens) {
        return Some(Finding::unknown("its parentheses do not match"));
    }
    for (at, pair) in tokens.windows(2).enumerate() {
        let [name, open] = pair else { continue };
        if open.kind != Kind::Open || !matches!(name.kind, Kind::Word | Kind::Quoted) {
            continue;
        }
        let back = |by: usize| at.checked_sub(by).and_then(|at| tokens.get(at));
        let qualified = back(1).is_some_and(|token| token.kind == Kind::Dot);
        let alias = back(1).is_some_and(|token| token.is_word("as"));
        if alias || (!qualified && (is_grammar(dialect, back(1), name) || is_common_table(tokens, at))) {
            continue;
        }
        let schema = if qualified { back(2).map(|token| bare(token)) } else { None };
        let called = Called { schema, name: bare(name), quoted: name.kind == Kind::Quoted };
        if let Some(finding) = functions::judge(dialect, called) {
            return Some(finding);
        }
    }
    None
}

fn is_grammar(dialect: Dialect, before: Option<&Token<'_>>, name: &Token<'_>) -> bool {
    let listed = |list: &str| list.split_ascii_whitespace().any(|word| name.text.eq_ignore_ascii_case(word));
    let after = |allowed: &[&str]| {
        before.is_some_and(|before| allowed.iter().any(|word| before.text.eq_ignore_ascii_case(word)))
    };
    let beside = || AFTER.iter().any(|(word, allowed)| name.text.eq_ignore_ascii_case(word) && after(allowed));
    name.kind == Kind::Word
        && (listed(RESERVED) || (dialect != Dialect::Postgres && listed(RESERVED_ELSEWHERE)) || beside())
}

/// `name (columns) AS (` after `WITH`, `RECURSIVE` or a comma.
fn is_common_table(tokens: &[Token<'_>], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|at| tokens.get(at)) else { return false };
    if !(before.is_word("with") || before.is_word("recursive") || before.kind == Kind::Comma) {
        return false;
    }
    let close = tokens.iter().skip(at).position(|token| token.kind == Kind::Close).map(|by| at + by);
    let after = |by: usize| close.and_then(|close| tokens.get(close + by));
    let query = |by: usize| match after(by) {
        Some(token) if token.kind == Kind::Open || token.is_word("select") || token.is_word("with") => true,
        Some(token) => token.is_word("values") && after(by + 1).is_some_and(|token| token.kind == Kind::Open),
        None => false,
    };
    // `FROM t, f(1) AS (a int)` looks alike but for what stands in the parentheses.
    let bodied = after(2).is_some_and(|token| token.kind == Kind::Open) && query(3);
    let marked = after(2).is_some_and(|token| token.is_word("materialized") || token.is_word("not"));
    after(1).is_some_and(|token| token.is_word("as")) && (bodied || marked)
}

fn balanced(tokens: &[Token<'_>]) -> bool {
    let mut depth = 0_i64;
    for token in tokens {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

fn bare<'a>(token: &Token<'a>) -> &'a str {
    if token.kind == Kind::Quoted { token.text.trim_matches(['"', '`', '[', ']']) } else { token.text }
}
