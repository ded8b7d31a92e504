//! A second opinion on which part of a text is program: the parser's own tokenizer has to find the same strings, quoted names and comments
//! as `lexer`. The two share no code, so a wrong rule in one of them is not enough to hide a program in a string, or a string's end in a
//! comment.

use sqlparser::dialect::Dialect as Grammar;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};

use crate::effects::sql::lexer::{SqlTokenKind, SqlTokens};

/// Whether the tokenizer of that grammar takes the same bytes for strings, quoted names and comments.
pub(super) fn agrees(grammar: &dyn Grammar, text: &str, lexed: &SqlTokens<'_>) -> bool {
    let Ok(tokens) = Tokenizer::new(grammar, text).with_unescape(false).tokenize_with_location() else { return false };
    let mut position = TextPosition { rest: text.chars(), text, line: 1, column: 1 };
    let theirs = tokens.iter().filter(|token| is_opaque(&token.token)).map(|token| position.bytes_of(token));
    let ours_of_tokens = lexed
        .tokens
        .iter()
        .filter(|token| matches!(token.kind, SqlTokenKind::Text | SqlTokenKind::Quoted))
        .map(|token| (token.start, token.end()));
    let mut ours: Vec<(usize, usize)> = ours_of_tokens.chain(lexed.comments.iter().copied()).collect();
    ours.sort_unstable();
    // One of the two counts the line's end to a line comment, the other does not.
    let trimmed = |(start, end): (usize, usize)| {
        (start, start + text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r']).len())
    };
    theirs.map(trimmed).eq(ours.into_iter().map(trimmed))
}

fn is_opaque(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some(),
        Token::Whitespace(space) => {
            matches!(space, Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_))
        }
        Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::TripleSingleQuotedString(_)
        | Token::TripleDoubleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::SingleQuotedByteStringLiteral(_)
        | Token::DoubleQuotedByteStringLiteral(_)
        | Token::TripleSingleQuotedByteStringLiteral(_)
        | Token::TripleDoubleQuotedByteStringLiteral(_)
        | Token::SingleQuotedRawStringLiteral(_)
        | Token::DoubleQuotedRawStringLiteral(_)
        | Token::TripleSingleQuotedRawStringLiteral(_)
        | Token::TripleDoubleQuotedRawStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::QuoteDelimitedStringLiteral(_)
        | Token::NationalQuoteDelimitedStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_) => true,
        _ => false,
    }
}

/// A place in the text that only goes forward: the tokenizer counts lines and characters, the lexer bytes.
struct TextPosition<'a> {
    rest: std::str::Chars<'a>,
    text: &'a str,
    line: u64,
    column: u64,
}

impl TextPosition<'_> {
    fn bytes_of(&mut self, token: &TokenWithSpan) -> (usize, usize) {
        (self.advance_to(token.span.start), self.advance_to(token.span.end))
    }

    fn advance_to(&mut self, target: Location) -> usize {
        while (self.line, self.column) < (target.line, target.column) {
            match self.rest.next() {
                Some('\n') => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => break,
            }
        }
        self.text.len() - self.rest.as_str().len()
    }
}
