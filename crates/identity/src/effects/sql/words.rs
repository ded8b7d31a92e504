//! What the words of a query, without strings and comments, prove without a grammar: parts that change something in any context, and
//! operators that are not the engine's own. It never says that a query only reads.

use crate::effects::sql::functions;
use crate::effects::sql::lexer::{SqlToken, SqlTokenKind};
use crate::effects::{EffectFinding, ProgramEffect, SqlDialect};

/// What in this query certainly changes something, found without a grammar.
pub(super) fn hazard(dialect: SqlDialect, tokens: &[SqlToken<'_>]) -> Option<EffectFinding> {
    let mut depth = 0_usize;
    let starts_with = tokens.first().is_some_and(|first| first.is_word("with"));
    for (at, token) in tokens.iter().enumerate() {
        let ahead = |by: usize| tokens.get(at + by);
        let next_is = |by: usize, word: &str| ahead(by).is_some_and(|token| token.is_word(word));
        let previous = at.checked_sub(1).and_then(|at| tokens.get(at));
        match token.kind {
            SqlTokenKind::Open => depth += 1,
            SqlTokenKind::Close => depth = depth.saturating_sub(1),
            SqlTokenKind::Word | SqlTokenKind::Sign => {}
            _ => continue,
        }
        if token.text == ":" && ahead(1).is_some_and(|next| next.text.starts_with('=') && next.start == token.end()) {
            return Some(EffectFinding::unknown("`:=` sets a variable of the session"));
        }
        if token.kind != SqlTokenKind::Word {
            continue;
        }
        // In `t.into` and `AS into` the word may be a name; in `@a. INTO` and `@as INTO` it is none.
        if previous.is_some_and(|token| token.kind == SqlTokenKind::Dot || token.is_word("as")) {
            if ["into", "for", "lock"].iter().any(|word| token.is_word(word)) {
                return Some(EffectFinding::unknown("a word of the grammar where a name could stand"));
            }
            continue;
        }
        let opens = previous.is_some_and(|token| token.kind == SqlTokenKind::Open);
        let leads = starts_with && depth == 0 && at > 0;
        if (opens || leads)
            && let Some(verb) = modifying_verb(token, ahead(1))
        {
            return Some(EffectFinding::write(format!("{verb} inside WITH or a subquery changes rows")));
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
            return Some(EffectFinding::write("SELECT … FOR UPDATE or FOR SHARE locks rows"));
        }
        if token.is_word("lock") && next_is(1, "in") && next_is(2, "share") {
            return Some(EffectFinding::write("SELECT … LOCK IN SHARE MODE locks rows"));
        }
    }
    None
}

fn modifying_verb(token: &SqlToken<'_>, next: Option<&SqlToken<'_>>) -> Option<&'static str> {
    let next = next?;
    let named = matches!(next.kind, SqlTokenKind::Word | SqlTokenKind::Quoted);
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
fn into(dialect: SqlDialect, next: Option<&SqlToken<'_>>) -> EffectFinding {
    if next.is_some_and(|next| next.is_word("outfile") || next.is_word("dumpfile")) {
        return EffectFinding::write("SELECT … INTO OUTFILE writes a file");
    }
    if dialect == SqlDialect::MySql && next.is_some_and(|next| next.text.starts_with('@')) {
        return EffectFinding::unknown("SELECT … INTO sets variables of the session");
    }
    EffectFinding::new(ProgramEffect::Ddl, "SELECT … INTO creates a table")
}

/// Finds an operator that may not be PostgreSQL's own. Such an operator calls a user-defined function.
pub(super) fn foreign_operator(dialect: SqlDialect, tokens: &[SqlToken<'_>]) -> Option<EffectFinding> {
    if !matches!(dialect, SqlDialect::Postgres | SqlDialect::Generic) {
        return None;
    }
    let is_spelled_out = |pair: &[SqlToken<'_>]| matches!(pair, [word, open] if word.is_word("operator") && open.kind == SqlTokenKind::Open);
    if tokens.windows(2).any(is_spelled_out) {
        return Some(EffectFinding::unknown("OPERATOR(…) names an operator that may be user-defined"));
    }
    let foreign = tokens.iter().find(|token| token.kind == SqlTokenKind::Sign && is_foreign(token.text))?;
    Some(EffectFinding::unknown(format!(
        "uses the operator {}, which is not one of PostgreSQL's own",
        crate::effects::shown(foreign.text)
    )))
}

fn is_foreign(sign: &str) -> bool {
    if functions::is_builtin_operator(sign) || !sign.bytes().all(|byte| b"+-*/<>=~!@#%^&|?`".contains(&byte)) {
        return false;
    }
    // `a *-1` is two operators: PostgreSQL ends an operator before a sign, unless it holds one of these.
    if sign.contains(['~', '!', '@', '#', '%', '^', '&', '|', '`', '?']) {
        return true;
    }
    let head = sign.trim_end_matches(['-', '+']);
    !functions::is_builtin_operator(head) && !head.is_empty()
}
