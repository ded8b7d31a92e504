//! SQL: what each statement of a text would do. Cuts the text into statements by the engine's own rules of strings and comments,
//! judges a statement by how it begins (`kinds`) and a query by its tree (`tree`) or, where the parser does not know it, by its words
//! (`words`). For an engine that is not stated a text must be harmless to each of them.

mod functions;
mod kinds;
mod lexer;
mod pragma;
mod settings;
mod tree;
mod words;

use std::borrow::Cow;

use crate::effects::{Dialect, Effect, Finding, Limits, StatementRef, Verdict};
use lexer::{Executable, Kind, Lexed, Token};

/// How long a chain of operators or set operations the parser is given: its tree is as deep as the chain is long.
const CHAIN_MAX: usize = 200;
/// How deep parentheses may go for the parser. A subquery costs it a great many frames, and the default stack of a thread is 2 MB.
const PARENTHESES_DEPTH_MAX: usize = 7;
/// How deep the parser may go by its own count: a subquery counts three or four times.
const PARSER_DEPTH_MAX: usize = 16;

/// What the statements of `text` would do: the heaviest of them.
pub(super) fn classify(dialect: Dialect, text: &str, limits: &Limits) -> Verdict {
    match dialect {
        Dialect::Generic => classify_for_any(text, limits),
        _ => classify_for(dialect, dialect, text, limits),
    }
}

/// Engines disagree on what is a string and what a comment. Where they cut a text alike it is judged once, by the generic grammar
/// and everybody's functions; where they do not, by each.
fn classify_for_any(text: &str, limits: &Limits) -> Verdict {
    let cut = |dialect| lexer::lex(text, dialect, Executable::Program, limits.tokens_max);
    let (postgres, sqlite, mysql) = (cut(Dialect::Postgres), cut(Dialect::Sqlite), cut(Dialect::MySql));
    let alike =
        |one: &Lexed<'_>, other: &Lexed<'_>| one.unterminated == other.unterminated && one.tokens == other.tokens;
    // MySQL reads "x" as a string and the others as a name; that alone cannot turn a read into anything else.
    let quotes_apart = |one: &Lexed<'_>, other: &Lexed<'_>| {
        let same = |(one, other): (&Token<'_>, &Token<'_>)| {
            one == other || (one.start == other.start && one.text == other.text && one.text.starts_with('"'))
        };
        one.unterminated == other.unterminated
            && one.tokens.len() == other.tokens.len()
            && one.tokens.iter().zip(&other.tokens).all(same)
    };
    if alike(&postgres, &sqlite) && quotes_apart(&postgres, &mysql) {
        return classify_for(Dialect::Generic, Dialect::Postgres, text, limits);
    }
    [Dialect::Postgres, Dialect::Sqlite, Dialect::MySql]
        .into_iter()
        .map(|lexical| classify_for(Dialect::Generic, lexical, text, limits))
        .reduce(Verdict::or_heavier)
        .unwrap_or_else(|| Verdict::of_text(Effect::Unknown, "no engine reads it"))
}

/// Judged by the words of `lexical`, the grammar and functions of `dialect`.
fn classify_for(dialect: Dialect, lexical: Dialect, text: &str, limits: &Limits) -> Verdict {
    let lexed = lexer::lex(text, lexical, Executable::Program, limits.tokens_max);
    let executable = lexed.executable;
    let verdict = classify_lexed(dialect, text, &lexed, limits);
    if executable == 0 {
        return verdict;
    }
    // A server older than the version in `/*!50000 … */` skips it: both readings count.
    let skipped = lexer::lex(text, lexical, Executable::Comment, limits.tokens_max);
    let verdict = verdict.or_heavier(classify_lexed(dialect, text, &skipped, limits));
    if executable > 1 {
        return verdict.or_heavier(Verdict::of_text(
            Effect::Unknown,
            "several executable comments, which servers combine differently",
        ));
    }
    verdict
}

fn classify_lexed(dialect: Dialect, text: &str, lexed: &Lexed<'_>, limits: &Limits) -> Verdict {
    if lexed.overflow {
        return Verdict::of_text(Effect::Unknown, format!("the text has more than {} words", limits.tokens_max));
    }
    let cleaned = without_comments(text, &lexed.comments);
    let mut heaviest: Option<Verdict> = None;
    let statements = lexed.tokens.split(|token| token.kind == Kind::Semicolon).filter(|tokens| !tokens.is_empty());
    for (index, tokens) in statements.enumerate() {
        if index >= limits.statements_max {
            let many = Verdict::of_text(
                Effect::Unknown,
                format!("the text has more than {} statements", limits.statements_max),
            );
            return heaviest.map_or(many.clone(), |heaviest| heaviest.or_heavier(many));
        }
        let judged = Statement { dialect, text: &cleaned, tokens, limits }.judge(0);
        let kind = kinds::name(tokens);
        let verdict = Verdict { effect: judged.effect, why: judged.why, statement: Some(StatementRef { index, kind }) };
        heaviest = Some(match heaviest {
            Some(heaviest) => heaviest.or_heavier(verdict),
            None => verdict,
        });
    }
    let verdict = heaviest.unwrap_or_else(|| Verdict::of_text(Effect::Read, "there is no statement in it"));
    if lexed.unterminated {
        return verdict
            .or_heavier(Verdict::of_text(Effect::Unknown, "a string, a quoted name or a comment in it has no end"));
    }
    verdict
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
struct Statement<'a> {
    dialect: Dialect,
    text: &'a str,
    tokens: &'a [Token<'a>],
    limits: &'a Limits,
}

impl<'a> Statement<'a> {
    /// What it would do. `depth` counts the statements around it (`EXPLAIN ANALYZE`, `PREPARE … AS`).
    fn judge(self, depth: usize) -> Finding {
        if depth > self.limits.depth_max {
            return Finding::unknown("statements inside statements go too deep");
        }
        kinds::judge(self, depth)
    }

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
    fn judge_query(self) -> Finding {
        if let Some(finding) = words::hazard(self.dialect, self.tokens) {
            return finding;
        }
        let fits = self.longest_chain() <= CHAIN_MAX && self.parentheses_depth() <= PARENTHESES_DEPTH_MAX;
        let parsed = if fits {
            tree::judge(self.dialect, self.source(), PARSER_DEPTH_MAX.min(self.limits.depth_max))
        } else {
            Err(tree::NotUnderstood)
        };
        let (finding, why) = match parsed {
            Ok(finding) => (finding, "a query, and every function in it is known to change nothing"),
            Err(tree::NotUnderstood) if self.dialect == Dialect::Generic => {
                (Some(Finding::unknown("the parser does not understand this query")), "")
            }
            Err(tree::NotUnderstood) => (
                words::doubt(self.dialect, self.tokens),
                "a query that the parser does not know, but no word of it can change anything",
            ),
        };
        finding.or_else(|| words::foreign_operator(self.dialect, self.tokens)).unwrap_or_else(|| Finding::read(why))
    }

    fn parentheses_depth(self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0_usize);
        for token in self.tokens {
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                Kind::Sign if matches!(token.text, "[" | "{") => depth += 1,
                Kind::Sign if matches!(token.text, "]" | "}") => depth = depth.saturating_sub(1),
                _ if token.is_word("case") => depth += 1,
                _ if token.is_word("end") => depth = depth.saturating_sub(1),
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        deepest
    }

    /// How many links a chain in it may have at most. The parser makes `a + a + a` as deep as it is long, and so are its walk and
    /// its end, which no recursion limit bounds.
    fn longest_chain(self) -> usize {
        const LINKS: &[&str] = &[
            "and",
            "or",
            "xor",
            "not",
            "is",
            "isnull",
            "notnull",
            "null",
            "union",
            "except",
            "intersect",
            "minus",
            "collate",
            "like",
            "ilike",
            "rlike",
            "regexp",
            "glob",
            "match",
            "similar",
            "in",
            "between",
            "at",
            "div",
            "mod",
            "overlaps",
            "escape",
            "member",
            "operator",
            "case",
            "interval",
            "prior",
            "binary",
        ];
        let links = |token: &&Token<'_>| {
            token.kind == Kind::Sign || (token.kind == Kind::Word && LINKS.iter().any(|word| token.is_word(word)))
        };
        self.tokens.iter().filter(links).count()
    }
}
