//! SQL: whether each statement of a text provably only reads. Splits the text into statements by the engine's own rules of
//! strings and comments, refuses a text that readers may split differently (`ambiguity`, `tokenizer_check`), judges a statement
//! by how it begins (`statement_kinds`) and a query by its tree (`tree`). Everything else is `unknown`. If the contract names
//! no engine, the text must be harmless on every engine.

mod ambiguity;
mod functions;
mod lexer;
mod pragma;
mod rows_of_functions;
mod settings;
mod show;
mod skipped_words;
mod statement_kinds;
mod tokenizer_check;
mod tree;
mod types;
mod words;

use std::borrow::Cow;

use crate::effects::{EffectFinding, ProgramEffect, ProgramLimits, ProgramVerdict, SqlDialect, StatementRef};
use lexer::{SqlToken, SqlTokenKind, SqlTokens};

/// How deep parentheses may go for the parser, which tries several readings of each.
const PARENTHESES_DEPTH_MAX: usize = 24;
/// How many joins a statement for the parser may have: a join without `ON` nests, and the parser does not count it.
const JOINS_MAX: usize = 64;
/// How many words a statement for the parser may have.
const PARSED_TOKENS_MAX: usize = 4_000;

/// What the statements of `text` would do: the heaviest of them.
pub(super) fn classify(dialect: SqlDialect, text: &str, limits: &ProgramLimits) -> ProgramVerdict {
    match dialect {
        SqlDialect::Generic => classify_for_any(text, limits),
        _ => classify_for(dialect, dialect, text, limits),
    }
}

/// Judges a text for an unnamed engine. Engines disagree about strings and comments, so all of them must cut the text alike. It is judged
/// by the generic grammar and by the functions of every engine.
fn classify_for_any(text: &str, limits: &ProgramLimits) -> ProgramVerdict {
    let cut = |dialect| lexer::lex(text, dialect, limits.tokens_max);
    let (postgres, sqlite, mysql) = (cut(SqlDialect::Postgres), cut(SqlDialect::Sqlite), cut(SqlDialect::MySql));
    // MySQL reads "x" as a string and the others as a name; that alone cannot turn a read into anything else.
    let alike = |one: &SqlTokens<'_>, other: &SqlTokens<'_>| {
        let same = |(one, other): (&SqlToken<'_>, &SqlToken<'_>)| {
            one == other || (one.start == other.start && one.text == other.text && one.text.starts_with('"'))
        };
        one.tokens.len() == other.tokens.len() && one.tokens.iter().zip(&other.tokens).all(same)
    };
    if !(alike(&postgres, &sqlite) && alike(&postgres, &mysql)) {
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            "engines read its strings and comments differently, and the engine is not stated",
        );
    }
    let doubt = [(SqlDialect::Sqlite, &sqlite), (SqlDialect::MySql, &mysql)]
        .into_iter()
        .find_map(|(dialect, lexed)| ambiguity::find_ambiguity(dialect, text, lexed));
    if let Some(why) = doubt {
        return ProgramVerdict::for_text(ProgramEffect::Unknown, why);
    }
    let verdict = classify_for(SqlDialect::Generic, SqlDialect::Postgres, text, limits);
    [(SqlDialect::Postgres, &postgres), (SqlDialect::Sqlite, &sqlite), (SqlDialect::MySql, &mysql)]
        .into_iter()
        .fold(verdict, |verdict, (dialect, lexed)| read_again(dialect, text, lexed, verdict))
}

/// Judged by the words of `lexical`, the grammar and functions of `dialect`.
fn classify_for(dialect: SqlDialect, lexical: SqlDialect, text: &str, limits: &ProgramLimits) -> ProgramVerdict {
    let lexed = lexer::lex(text, lexical, limits.tokens_max);
    if lexed.overflow {
        return ProgramVerdict::for_text(
            ProgramEffect::Unknown,
            format!("the text has more than {} words", limits.tokens_max),
        );
    }
    let doubt = ambiguity::find_ambiguity(dialect, text, &lexed)
        .map(|why| ProgramVerdict::for_text(ProgramEffect::Unknown, why));
    let verdict = read_again(dialect, text, &lexed, classify_lexed(dialect, text, &lexed, limits));
    match doubt {
        Some(doubt) => verdict.or_heavier(doubt),
        None => verdict,
    }
}

/// The same verdict, unless it is a read and the parser's own tokenizer sees other strings and comments in the text.
fn read_again(dialect: SqlDialect, text: &str, lexed: &SqlTokens<'_>, verdict: ProgramVerdict) -> ProgramVerdict {
    if verdict.effect != ProgramEffect::Read || tokenizer_check::agrees(tree::grammar(dialect), text, lexed) {
        return verdict;
    }
    ProgramVerdict::for_text(
        ProgramEffect::Unknown,
        "two readers of it disagree on what is a string and what a comment",
    )
}

fn classify_lexed(dialect: SqlDialect, text: &str, lexed: &SqlTokens<'_>, limits: &ProgramLimits) -> ProgramVerdict {
    let cleaned = without_comments(text, &lexed.comments);
    let mut heaviest: Option<ProgramVerdict> = None;
    let statements =
        lexed.tokens.split(|token| token.kind == SqlTokenKind::Semicolon).filter(|tokens| !tokens.is_empty());
    for (index, tokens) in statements.enumerate() {
        if index >= limits.statements_max {
            let many = ProgramVerdict::for_text(
                ProgramEffect::Unknown,
                format!("the text has more than {} statements", limits.statements_max),
            );
            return heaviest.map_or(many.clone(), |heaviest| heaviest.or_heavier(many));
        }
        let judged = statement_kinds::judge(SqlStatement { dialect, text: &cleaned, tokens });
        let kind = statement_kinds::name(tokens);
        let verdict =
            ProgramVerdict { effect: judged.effect, why: judged.why, statement: Some(StatementRef { index, kind }) };
        heaviest = Some(match heaviest {
            Some(heaviest) => heaviest.or_heavier(verdict),
            None => verdict,
        });
    }
    heaviest.unwrap_or_else(|| ProgramVerdict::for_text(ProgramEffect::Read, "there is no statement in it"))
}

/// The text with a space for every comment, so that the parser needs no opinion on them.
fn without_comments<'a>(text: &'a str, comments: &[(usize, usize)]) -> Cow<'a, str> {
    if comments.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut from = 0;
    for (start, end) in comments {
        cleaned.push_str(text.get(from..*start).unwrap_or_default());
        // Same length, so that the tokens' positions hold; a line end stays one, because strings go on across it.
        cleaned.extend(std::iter::repeat_n(' ', end.saturating_sub(*start)));
        from = *end;
    }
    cleaned.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(cleaned)
}

/// One statement: its tokens, and the text they were cut from.
#[derive(Clone, Copy)]
struct SqlStatement<'a> {
    dialect: SqlDialect,
    text: &'a str,
    tokens: &'a [SqlToken<'a>],
}

impl<'a> SqlStatement<'a> {
    /// The part from token `from` on, as a statement.
    fn from(self, from: usize) -> Self {
        Self { tokens: self.tokens.get(from..).unwrap_or_default(), ..self }
    }

    fn between(self, from: usize, to: usize) -> Self {
        Self { tokens: self.tokens.get(from..to).unwrap_or_default(), ..self }
    }

    fn source(self) -> &'a str {
        let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) else { return "" };
        self.text.get(first.start..last.end()).unwrap_or_default()
    }

    /// Judges a query: `SELECT`, `WITH`, `VALUES`, `TABLE`, or one in parentheses.
    fn judge_query(self) -> EffectFinding {
        if let Some(finding) = words::hazard(self.dialect, self.tokens) {
            return finding;
        }
        if self.tokens.len() > PARSED_TOKENS_MAX {
            return EffectFinding::unknown(format!("a query of more than {PARSED_TOKENS_MAX} words is not read"));
        }
        if self.tokens.iter().filter(|token| token.is_word("join") || token.is_word("straight_join")).count()
            > JOINS_MAX
        {
            return EffectFinding::unknown(format!("more than {JOINS_MAX} joins are not read"));
        }
        if self.parentheses_depth() > PARENTHESES_DEPTH_MAX {
            return EffectFinding::unknown(format!("parentheses deeper than {PARENTHESES_DEPTH_MAX} are not read"));
        }
        words::foreign_operator(self.dialect, self.tokens).unwrap_or_else(|| tree::judge(self))
    }

    fn parentheses_depth(self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0_usize);
        for token in self.tokens {
            match token.kind {
                SqlTokenKind::Open => depth += 1,
                SqlTokenKind::Close => depth = depth.saturating_sub(1),
                SqlTokenKind::Sign if matches!(token.text, "[" | "{") => depth += 1,
                SqlTokenKind::Sign if matches!(token.text, "]" | "}") => depth = depth.saturating_sub(1),
                _ if token.is_word("case") => depth += 1,
                _ if token.is_word("end") => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }
}
