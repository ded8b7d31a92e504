//! Whether the parser's tree holds every word that was written. The tree is written out again and its words are counted: the parser
//! skipped a word that the tree does not hold, and a skipped word was not judged.

use std::collections::HashMap;

use crate::effects::SqlDialect;
use crate::effects::sql::SqlStatement;
use crate::effects::sql::lexer::{self, SqlToken, SqlTokenKind};

/// Words that a tree need not repeat: they change nothing, or the tree writes them differently.
const IMPLIED: &str = " all as asc inner outer at is not ";

/// A word of the query that the written-out tree lacks, if there is one. A missing string or number is given as its text.
pub(super) fn missing(query: SqlStatement<'_>, written: &str) -> Option<String> {
    let lexical = if query.dialect == SqlDialect::Generic { SqlDialect::Postgres } else { query.dialect };
    // A written-out tree is longer than the query by a bounded factor: `AS`, parentheses, full names of types.
    // Signs are not counted, and two of `-` side by side would begin a comment.
    let written = written.replace('-', "- ");
    let lexed = lexer::lex(&written, lexical, query.tokens.len().saturating_mul(8).saturating_add(64));
    let mut held: HashMap<String, usize> = HashMap::new();
    for token in &lexed.tokens {
        *held.entry(counted_as(token)).or_default() += 1;
    }
    query.tokens.iter().find_map(|token| {
        let word = counted_as(token);
        if word.is_empty() || IMPLIED.split(' ').any(|implied| implied == word) {
            return None;
        }
        match held.get_mut(&word) {
            Some(count) if *count > 0 => {
                *count -= 1;
                None
            }
            _ => Some(token.text.to_owned()),
        }
    })
}

/// What a token is counted as: words by themselves, strings and numbers as what they are, signs not at all.
fn counted_as(token: &SqlToken<'_>) -> String {
    match token.kind {
        SqlTokenKind::Word => token.text.to_ascii_lowercase(),
        SqlTokenKind::Quoted | SqlTokenKind::Text => "'text'".to_owned(),
        SqlTokenKind::Number => "0".to_owned(),
        SqlTokenKind::Semicolon
        | SqlTokenKind::Open
        | SqlTokenKind::Close
        | SqlTokenKind::Dot
        | SqlTokenKind::Comma
        | SqlTokenKind::Sign => String::new(),
    }
}
