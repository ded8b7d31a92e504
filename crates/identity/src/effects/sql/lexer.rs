//! Cuts SQL into words by the rules of the engine that will read it: strings, quoted names, dollar quotes, comments. It decides which
//! bytes are text and which are program, and knows no grammar. It never recurses and never fails: a string or comment without an end is
//! reported as such.

use crate::effects::SqlDialect;

/// What a token is. Comments and space are not tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlTokenKind {
    /// An unquoted name or a keyword.
    Word,
    /// A quoted name: `"x"`, `` `x` ``, `[x]`.
    Quoted,
    /// A string of any kind.
    Text,
    Number,
    Semicolon,
    Open,
    Close,
    Dot,
    Comma,
    /// A run of operator characters, or anything else.
    Sign,
}

/// A token: its kind and its bytes in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SqlToken<'a> {
    pub(super) kind: SqlTokenKind,
    pub(super) text: &'a str,
    pub(super) start: usize,
}

impl SqlToken<'_> {
    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == SqlTokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// The tokens of a text, and what must be known about how they were found.
#[derive(Debug)]
pub(super) struct SqlTokens<'a> {
    pub(super) tokens: Vec<SqlToken<'a>>,
    /// Byte ranges that are comments, MySQL's executable ones too.
    pub(super) comments: Vec<(usize, usize)>,
    /// A string, a quoted name or a comment had no end.
    pub(super) unterminated: bool,
    /// More tokens than allowed.
    pub(super) overflow: bool,
}

/// Cuts `text` by the rules of `dialect` into at most `tokens_max` tokens.
pub(super) fn lex(text: &str, dialect: SqlDialect, tokens_max: usize) -> SqlTokens<'_> {
    let mut lexer = SqlLexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        dialect,
        out: SqlTokens {
            tokens: Vec::with_capacity(text.len() / 5 + 4),
            comments: Vec::new(),
            unterminated: false,
            overflow: false,
        },
    };
    while lexer.at < lexer.bytes.len() {
        if lexer.out.tokens.len() >= tokens_max {
            lexer.out.overflow = true;
            break;
        }
        lexer.next();
    }
    lexer.out
}

struct SqlLexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    dialect: SqlDialect,
    out: SqlTokens<'a>,
}

impl SqlLexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) {
        let byte = self.peek(0);
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => self.at += 1,
            b'-' if self.peek(1) == b'-' && self.dashes_comment() => self.line_comment(),
            b'#' if self.dialect == SqlDialect::MySql => self.line_comment(),
            b'/' if self.peek(1) == b'*' => self.block_comment(),
            b'\'' => self.quoted(0, b'\'', SqlTokenKind::Text, self.dialect == SqlDialect::MySql),
            b'"' if self.dialect == SqlDialect::MySql => self.quoted(0, b'"', SqlTokenKind::Text, true),
            b'"' => self.quoted(0, b'"', SqlTokenKind::Quoted, false),
            b'`' if self.dialect != SqlDialect::Postgres => self.quoted(0, b'`', SqlTokenKind::Quoted, false),
            b'[' if self.dialect == SqlDialect::Sqlite => self.bracketed(),
            b'$' if self.dialect == SqlDialect::Postgres => self.dollar(),
            b'0'..=b'9' => {
                self.take(SqlTokenKind::Number, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.');
            }
            b'.' if self.peek(1).is_ascii_digit() && !self.after_name() => {
                self.take(SqlTokenKind::Number, |byte| byte.is_ascii_alphanumeric() || byte == b'.');
            }
            b';' => self.push(SqlTokenKind::Semicolon, 1),
            b'(' => self.push(SqlTokenKind::Open, 1),
            b')' => self.push(SqlTokenKind::Close, 1),
            b'.' => self.push(SqlTokenKind::Dot, 1),
            b',' => self.push(SqlTokenKind::Comma, 1),
            _ if is_name_start(byte) => self.name(),
            _ => self.sign(),
        }
    }

    /// After `t` in `t.1`, a dot is a dot.
    fn after_name(&self) -> bool {
        self.out
            .tokens
            .last()
            .is_some_and(|last| matches!(last.kind, SqlTokenKind::Word | SqlTokenKind::Quoted) && last.end() == self.at)
    }

    fn push(&mut self, kind: SqlTokenKind, bytes: usize) {
        let end = (self.at + bytes).min(self.bytes.len());
        // A cut inside a character cannot happen: every rule stops at an ASCII byte or at the end. If it did, the token is dropped
        // and the text counts as not understood.
        match self.text.get(self.at..end) {
            Some(text) => self.out.tokens.push(SqlToken { kind, text, start: self.at }),
            None => self.out.unterminated = true,
        }
        self.at = end.max(self.at + 1);
    }

    fn take(&mut self, kind: SqlTokenKind, while_true: impl Fn(u8) -> bool) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let bytes = rest.iter().position(|byte| !while_true(*byte)).unwrap_or(rest.len());
        self.push(kind, bytes.max(1));
    }

    fn name(&mut self) {
        let prefix = self.peek(0).to_ascii_lowercase();
        let quote = self.peek(1);
        match (prefix, quote, self.dialect) {
            (b'e', b'\'', SqlDialect::Postgres) => return self.quoted(1, b'\'', SqlTokenKind::Text, true),
            (b'b' | b'x' | b'n', b'\'', _) => {
                return self.quoted(1, b'\'', SqlTokenKind::Text, self.dialect == SqlDialect::MySql);
            }
            (b'u', b'&', SqlDialect::Postgres) if self.peek(2) == b'\'' => {
                return self.quoted(2, b'\'', SqlTokenKind::Text, false);
            }
            (b'u', b'&', SqlDialect::Postgres) if self.peek(2) == b'"' => {
                return self.quoted(2, b'"', SqlTokenKind::Quoted, false);
            }
            _ => {}
        }
        self.take(SqlTokenKind::Word, |byte| is_name_start(byte) || byte.is_ascii_digit() || byte == b'$');
    }

    /// MySQL takes `--` for a comment only before white space or a control character.
    fn dashes_comment(&self) -> bool {
        self.dialect != SqlDialect::MySql || self.peek(2) <= b' ' || self.peek(2) == 0x7f
    }

    fn line_comment(&mut self) {
        let start = self.at;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let ends = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && self.dialect == SqlDialect::Postgres);
        let bytes = rest.iter().position(ends).unwrap_or(rest.len());
        self.at = start + bytes;
        self.out.comments.push((start, self.at));
    }

    fn block_comment(&mut self) {
        let start = self.at;
        self.at += 2;
        let mut depth = 1_usize;
        while depth > 0 {
            if self.at >= self.bytes.len() {
                // SQLite takes the end of the text for the end of the comment.
                self.out.unterminated |= self.dialect != SqlDialect::Sqlite;
                break;
            }
            match (self.peek(0), self.peek(1)) {
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                }
                (b'/', b'*') if self.dialect == SqlDialect::Postgres => {
                    depth += 1;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
        self.out.comments.push((start, self.at.min(self.bytes.len())));
    }

    fn quoted(&mut self, prefix: usize, quote: u8, kind: SqlTokenKind, backslash: bool) {
        let mut ahead = prefix + 1;
        loop {
            if self.at + ahead >= self.bytes.len() {
                self.out.unterminated = true;
                break;
            }
            let byte = self.peek(ahead);
            if (backslash && byte == b'\\') || (byte == quote && self.peek(ahead + 1) == quote) {
                ahead += 2;
            } else if byte == quote {
                ahead += 1;
                break;
            } else {
                ahead += 1;
            }
        }
        self.push(kind, ahead);
    }

    fn bracketed(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b']');
        self.out.unterminated |= end.is_none();
        self.push(SqlTokenKind::Quoted, end.map_or(rest.len(), |end| end + 1));
    }

    /// `$1` is a parameter, `$tag$ … $tag$` a string.
    fn dollar(&mut self) {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        let tag = rest.iter().position(|byte| !(is_name_start(*byte) || byte.is_ascii_digit())).unwrap_or(rest.len());
        let is_tag = rest.get(tag) == Some(&b'$') && !rest.first().is_some_and(u8::is_ascii_digit);
        if !is_tag {
            return self.take(SqlTokenKind::Number, |byte| byte == b'$' || byte.is_ascii_digit());
        }
        let fence_bytes = tag + 2;
        let body_at = self.at + fence_bytes;
        let end = match (self.text.get(self.at..body_at), self.text.get(body_at..)) {
            (Some(fence), Some(body)) => body.find(fence),
            _ => None,
        };
        self.out.unterminated |= end.is_none();
        self.push(SqlTokenKind::Text, end.map_or(self.bytes.len() - self.at, |end| end + 2 * fence_bytes));
    }

    fn sign(&mut self) {
        let starts_comment =
            |ahead: usize| matches!((self.peek(ahead), self.peek(ahead + 1)), (b'-', b'-') | (b'/', b'*'));
        let goes_on = |byte: u8| is_operator(byte) || (self.dialect == SqlDialect::Postgres && b"@#?`".contains(&byte));
        let mut bytes = 1;
        // A comment ends an operator.
        while goes_on(self.peek(bytes)) && !starts_comment(bytes) {
            bytes += 1;
        }
        self.push(SqlTokenKind::Sign, if goes_on(self.peek(0)) { bytes } else { 1 });
    }
}

/// Letters, `_` and everything beyond ASCII.
fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Characters of which every engine makes operators. PostgreSQL has more; elsewhere `#` begins a comment, a backquote a name, `@` a
/// variable.
fn is_operator(byte: u8) -> bool {
    b"+-*/<>=~!%^&|".contains(&byte)
}
