//! Accepts only texts that engines, their modes and the parser cut into words alike. Every other text is `unknown`: if two readers
//! disagree about strings, comments or names, one of them sees another program.

use crate::effects::SqlDialect;
use crate::effects::sql::functions;
use crate::effects::sql::lexer::{SqlToken, SqlTokenKind, SqlTokens};

/// Words that may stand before a string in PostgreSQL: its grammar, and its own types.
const BEFORE_TEXT: &str = "select distinct all and or not like ilike to between in is when then else case where having on by limit offset \
    from for escape as zone values similar date time timestamp timestamptz timetz interval text varchar char bpchar int int2 int4 int8 \
    integer smallint bigint bool boolean numeric decimal real float4 float8 precision json jsonb xml inet cidr uuid bytea bit regclass regtype \
    oid name point box circle line lseg path polygon macaddr macaddr8 money tsvector tsquery jsonpath both leading trailing document content \
    passing collate";

/// PostgreSQL truncates longer names.
const NAME_BYTES_MAX: usize = 63;
/// Names of MySQL's functions that are reserved words: no user's function has such a name without quotes. Other names may be those of a
/// user's function if a blank follows them; which ones depends on the version.
const RESERVED: &str =
    "char convert database exists if in insert interval left match mod repeat replace right row schema values";

/// The part of a text that readers may cut differently, if there is one.
pub(super) fn find_ambiguity(dialect: SqlDialect, text: &str, lexed: &SqlTokens<'_>) -> Option<&'static str> {
    if lexed.unterminated {
        return Some("a string, a quoted name or a comment in it has no end");
    }
    if text.bytes().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\r' | b'\t')) {
        return Some("it holds a control character");
    }
    if let Some(why) = line_ambiguity(text, lexed) {
        return Some(why);
    }
    lexed
        .comments
        .iter()
        .find_map(|(start, end)| {
            comment(dialect, text.get(*start..*end).unwrap_or_default(), text.as_bytes().get(*end))
        })
        .or_else(|| lexed.tokens.iter().find_map(|token| token_ambiguity(dialect, token)))
        .or_else(|| lexed.tokens.windows(2).find_map(|pair| pair_ambiguity(dialect, pair)))
        .or_else(|| lexed.tokens.windows(3).find_map(|three| typed_text(dialect, three)))
        .or_else(|| variable(dialect, &lexed.tokens))
}

/// Finds lines that the command-line programs of databases read as commands. To SQLite's, `go` and `/` end a statement, after which a dot
/// begins a command; to MariaDB's, `delimiter` at the beginning of a line is a command.
fn line_ambiguity(text: &str, lexed: &SqlTokens<'_>) -> Option<&'static str> {
    let program = super::without_comments(text, &lexed.comments);
    let is_command = |line: &str| {
        let line = line.trim().to_ascii_lowercase();
        matches!(line.as_str(), "go" | "/") || line.starts_with("delimiter") || line.starts_with('.')
    };
    program.lines().any(is_command).then_some("a line that is a command to some programs")
}

fn comment(dialect: SqlDialect, comment: &str, after: Option<&u8>) -> Option<&'static str> {
    let Some(body) = comment.strip_prefix("/*") else {
        // PostgreSQL ends a line comment at a carriage return, others at a line feed.
        let ends_apart = comment.contains('\r') || (after == Some(&b'\r'));
        return (ends_apart && dialect != SqlDialect::Sqlite).then_some("a comment that a carriage return may end");
    };
    if body.starts_with(['!', '+']) || body.starts_with("M!") {
        return Some("a comment that MySQL or MariaDB reads as program");
    }
    body.contains("/*").then_some("a comment inside a comment, which engines end in different places")
}

fn token_ambiguity(dialect: SqlDialect, token: &SqlToken<'_>) -> Option<&'static str> {
    let text = token.text;
    match token.kind {
        SqlTokenKind::Word | SqlTokenKind::Quoted if text.len() > NAME_BYTES_MAX && is_postgres(dialect) => {
            Some("a name so long that PostgreSQL cuts it")
        }
        SqlTokenKind::Text | SqlTokenKind::Quoted => {
            let starts_with_escape =
                text.len() > 1 && text.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("u&"));
            if starts_with_escape {
                return Some("a string or a name with Unicode escapes");
            }
            // The last byte of a character and a backquote are one character to a client with another character set.
            if text.starts_with('`') && !text.is_ascii() {
                return Some("a quoted name that is not ASCII");
            }
            let escapes_quote = text.contains("\\'") || text.contains("\\\"") || text.contains("\\`");
            (escapes_quote && !text.starts_with('$'))
                .then_some("a backslash before a quote, which may end the string or not")
        }
        SqlTokenKind::Number => (!is_plain_number(text)).then_some("a number with letters behind it"),
        SqlTokenKind::Sign if text == "$" || (text.contains('`') && dialect != SqlDialect::MySql) => {
            Some("a sign that engines read differently")
        }
        _ => (!text.is_ascii()).then_some("a character outside quotes that is not ASCII"),
    }
}

fn pair_ambiguity(dialect: SqlDialect, pair: &[SqlToken<'_>]) -> Option<&'static str> {
    let [one, other] = pair else { return None };
    match (one.kind, other.kind) {
        (SqlTokenKind::Text, SqlTokenKind::Text) => {
            Some("strings side by side, which engines join by rules of their own")
        }
        // `mytype 'x'` calls the type's own function.
        (SqlTokenKind::Word, SqlTokenKind::Text)
            if is_postgres(dialect) && !BEFORE_TEXT.split_ascii_whitespace().any(|word| one.is_word(word)) =>
        {
            Some("a name before a string, which may be a user-defined type")
        }
        // `"mytype" 'x'` does too, and `mytype(3) 'x'`.
        (SqlTokenKind::Quoted | SqlTokenKind::Close, SqlTokenKind::Text) if is_postgres(dialect) => {
            Some("a quoted name or a parenthesis before a string, which may be a user-defined type")
        }
        // With a blank the name is a user-defined function, unless a setting of MySQL says otherwise.
        (SqlTokenKind::Word, SqlTokenKind::Open)
            if matches!(dialect, SqlDialect::MySql | SqlDialect::Generic)
                && one.end() != other.start
                && functions::is_of_mysql(one.text)
                && !RESERVED.split_ascii_whitespace().any(|word| one.is_word(word)) =>
        {
            Some("a blank between the name of a function and its parenthesis")
        }
        // `$1` in PostgreSQL is a number; a name behind it is another word.
        (SqlTokenKind::Number, SqlTokenKind::Word) if one.end() == other.start => {
            Some("a number and a name without a blank")
        }
        // `"x"` is a string to MySQL.
        (SqlTokenKind::Text, SqlTokenKind::Quoted) if dialect == SqlDialect::Generic => {
            Some("a string beside a quoted name")
        }
        _ => None,
    }
}

/// Finds `public.text 'x'`: behind a dot every word is a name, so this is a user-defined type.
fn typed_text(dialect: SqlDialect, three: &[SqlToken<'_>]) -> Option<&'static str> {
    let [dot, name, text] = three else { return None };
    let is_typed = dot.kind == SqlTokenKind::Dot && name.kind == SqlTokenKind::Word && text.kind == SqlTokenKind::Text;
    (is_typed && is_postgres(dialect))
        .then_some("a name with a schema before a string, which may be a user-defined type")
}

/// Finds variables that engines and their programs cut differently. `@a.b` is one variable to MySQL, and `:a::b(…)` with any text in the
/// parentheses is one to SQLite; psql replaces `:a` with another text.
fn variable(dialect: SqlDialect, tokens: &[SqlToken<'_>]) -> Option<&'static str> {
    let touch = |one: &SqlToken<'_>, other: &SqlToken<'_>| one.end() == other.start;
    let is_doubled = |at: usize, sign: &SqlToken<'_>| {
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        before.is_some_and(|before| before.text.ends_with(sign.text) && touch(before, sign))
    };
    let doubt = |(at, pair): (usize, &[SqlToken<'_>])| {
        let [sign, name] = pair else { return None };
        if !matches!(sign.text, "@" | ":") || !touch(sign, name) {
            return None;
        }
        let is_colon = sign.text == ":";
        let after = tokens.get(at + 2).filter(|after| touch(name, after));
        let goes_on = after.is_some_and(|after| matches!(after.text, ":" | "(" | "."));
        match dialect {
            // `::` is no operator of SQLite's.
            SqlDialect::Sqlite if is_colon && name.text == ":" => Some("`::`, which SQLite takes for a part of a name"),
            SqlDialect::Sqlite | SqlDialect::MySql if goes_on && !is_doubled(at, sign) => {
                Some("a variable with a dot, a colon or a parenthesis in its name")
            }
            // A cast, `a::b`, is two colons; a setting of MySQL's, `@@a`, has two signs.
            SqlDialect::Postgres if is_colon && name.text != ":" && !is_doubled(at, sign) => {
                Some("a colon before a name, in whose place a program may put another text")
            }
            SqlDialect::Generic if name.text != sign.text && !(is_colon && is_doubled(at, sign)) => {
                Some("a variable, which engines read differently")
            }
            _ => None,
        }
    };
    tokens.windows(2).enumerate().find_map(doubt)
}

fn is_postgres(dialect: SqlDialect) -> bool {
    matches!(dialect, SqlDialect::Postgres | SqlDialect::Generic)
}

fn is_plain_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('$').unwrap_or(text);
    if let Some(hex) = text.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let (mantissa, exponent) =
        text.split_once(['e', 'E']).map_or((text, "0"), |(mantissa, exponent)| (mantissa, exponent));
    let whole = match mantissa.split_once('.') {
        Some((whole, part)) => {
            (whole.is_empty() || digits(whole)) && (part.is_empty() || digits(part)) && whole.len() + part.len() > 0
        }
        None => digits(mantissa),
    };
    // `1e-5` is cut at the sign.
    whole && (exponent.is_empty() || digits(exponent))
}
