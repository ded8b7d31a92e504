//! Which code is compiled for tests only, and where an item of it ends.

use super::tokens::{Kind, Token, end_of_group};

/// Whether a whole file is compiled for tests only.
pub(super) fn is_test_file(tokens: &[Token]) -> bool {
    let mut position = 0;
    while tokens.get(position).is_some_and(|token| token.is('#'))
        && tokens.get(position + 1).is_some_and(|token| token.is('!'))
    {
        let end = end_of_group(tokens, position + 2);
        if says_test(&tokens[position + 3..end - 1]) {
            return true;
        }
        position = end;
    }
    false
}

/// Whether an attribute says that what follows is compiled for tests only.
pub(super) fn says_test(attribute: &[Token]) -> bool {
    match attribute {
        [.., last] if last.word() == Some("test") => attribute.iter().all(|token| !token.is('(')),
        [name, open, inside @ .., _] if name.word() == Some("cfg") && open.is('(') => needs_test(inside),
        [name, open, ..] if name.word() == Some("tokio") && open.kind == Kind::Separator => {
            attribute.get(2).is_some_and(|token| token.word() == Some("test"))
        }
        _ => false,
    }
}

/// Whether a condition of `cfg` holds in tests only.
fn needs_test(condition: &[Token]) -> bool {
    match condition {
        [name] => name.word() == Some("test"),
        [name, open, inside @ .., _] if open.is('(') => match name.word() {
            Some("all") => conditions(inside).into_iter().any(needs_test),
            Some("any") => conditions(inside).into_iter().all(needs_test),
            _ => false,
        },
        _ => false,
    }
}

fn conditions(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token.kind {
            Kind::Sign('(') => depth += 1,
            Kind::Sign(')') => depth -= 1,
            _ => {}
        }
        depth == 0 && token.is(',')
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// The position after the item, field or statement that begins at `start`.
pub(super) fn end_of_item(tokens: &[Token], start: usize) -> usize {
    let word = |position: usize| tokens.get(position).and_then(Token::word).unwrap_or_default();
    let mut position = start;
    if word(position) == "pub" {
        position += 1;
        if tokens.get(position).is_some_and(|token| token.is('(')) {
            position = end_of_group(tokens, position);
        }
    }
    let (keyword, next) = (word(position), word(position + 1));
    let is_function = ["fn", "async", "unsafe", "extern"].contains(&next);
    let ends_at_semicolon = ["use", "const", "static", "type", "let"].contains(&keyword) && !is_function;
    let is_item = ends_at_semicolon
        || ["fn", "mod", "impl", "struct", "enum", "union", "trait", "macro_rules"].contains(&keyword)
        || ["const", "unsafe", "async", "extern"].contains(&keyword);
    let mut angles = 0_usize;
    while let Some(token) = tokens.get(position) {
        match token.kind {
            Kind::Sign('{') if !ends_at_semicolon => return end_of_group(tokens, position),
            Kind::Sign('(' | '[' | '{') => {
                position = end_of_group(tokens, position);
                continue;
            }
            Kind::Sign('<') => angles += 1,
            Kind::Sign('>') if !tokens[position - 1].is('-') => angles = angles.saturating_sub(1),
            Kind::Sign(';') => return position + 1,
            Kind::Sign(',') if !is_item && angles == 0 => return position + 1,
            Kind::Sign(')' | ']' | '}') => return position,
            _ => {}
        }
        position += 1;
    }
    tokens.len()
}
