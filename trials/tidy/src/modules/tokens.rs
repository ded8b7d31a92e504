//! Rust source as tokens: words, texts and signs with their lines. Comments and white space are dropped here, and texts are
//! separate from words, so that a path in either is never mistaken for code.
//!
//! This is a tokenizer and not a parser: it does not know items or expressions.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or a keyword; a raw identifier without its `r#`.
    Word(String),
    /// A string literal of any form, without its quotes.
    Text(String),
    /// A number, a character, a byte or a lifetime: nothing that names a module.
    Other,
    /// `::`.
    Separator,
    /// Any other character.
    Sign(char),
}

#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) line: usize,
}

impl Token {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }
}

/// The tokens of a source text.
pub(crate) fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader { characters: source.chars().collect(), position: 0, line: 1 };
    let mut found = Vec::new();
    while let Some(character) = reader.peek(0) {
        let line = reader.line;
        if let Some(kind) = reader.next_kind(character) {
            found.push(Token { kind, line });
        }
    }
    found
}

/// The position after the group that opens at `start`, which is one of `(`, `[` and `{`.
pub(crate) fn end_of_group(tokens: &[Token], start: usize) -> usize {
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate().skip(start) {
        match token.kind {
            Kind::Sign('(' | '[' | '{') => depth += 1,
            Kind::Sign(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return position + 1;
        }
    }
    tokens.len()
}

struct Reader {
    characters: Vec<char>,
    position: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.position + ahead).copied()
    }

    fn skip(&mut self, count: usize) {
        let end = (self.position + count).min(self.characters.len());
        self.line += self.characters[self.position..end].iter().filter(|character| **character == '\n').count();
        self.position = end;
    }

    /// Reads the next token; `None` for white space and comments.
    fn next_kind(&mut self, character: char) -> Option<Kind> {
        match (character, self.peek(1)) {
            ('/', Some('/')) => self.skip_line(),
            ('/', Some('*')) => self.skip_block_comment(),
            (':', Some(':')) => {
                self.skip(2);
                return Some(Kind::Separator);
            }
            ('"', _) => return Some(self.text(0)),
            ('\'', _) => return Some(self.quote()),
            _ if character.is_whitespace() => self.skip(1),
            _ if character.is_ascii_digit() => return Some(self.number()),
            _ if character.is_alphabetic() || character == '_' => return Some(self.word()),
            _ => {
                self.skip(1);
                return Some(Kind::Sign(character));
            }
        }
        None
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|character| character != '\n') {
            self.skip(1);
        }
    }

    /// Block comments nest.
    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.skip(2);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.skip(2);
                }
                (None, _) => return,
                _ => self.skip(1),
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A string with escapes, whose quote is `prefix` characters ahead.
    fn text(&mut self, prefix: usize) -> Kind {
        self.skip(prefix + 1);
        let start = self.position;
        while let Some(character) = self.peek(0) {
            match character {
                '"' => break,
                '\\' => self.skip(2),
                _ => self.skip(1),
            }
        }
        let text = self.characters[start..self.position].iter().collect();
        self.skip(1);
        Kind::Text(text)
    }

    /// A raw string, whose first `#` or quote is `prefix` characters ahead and which has `hashes` of `#`.
    fn raw_text(&mut self, prefix: usize, hashes: usize) -> Kind {
        self.skip(prefix + hashes + 1);
        let start = self.position;
        let ends =
            |reader: &Self| reader.peek(0) == Some('"') && (1..=hashes).all(|ahead| reader.peek(ahead) == Some('#'));
        while self.peek(0).is_some() && !ends(self) {
            self.skip(1);
        }
        let text = self.characters[start..self.position].iter().collect();
        self.skip(hashes + 1);
        Kind::Text(text)
    }

    /// A character or a lifetime.
    fn quote(&mut self) -> Kind {
        if self.peek(1) == Some('\\') {
            self.skip(3);
            while self.peek(0).is_some_and(|character| character != '\'') {
                self.skip(1);
            }
            self.skip(1);
        } else if self.peek(2) == Some('\'') {
            self.skip(3);
        } else {
            self.skip(1);
            self.take_word();
        }
        Kind::Other
    }

    /// A point belongs to a number only before a digit: `0..9` is a range and `pair.0.name` are fields.
    fn number(&mut self) -> Kind {
        self.take_word();
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|character| character.is_ascii_digit()) {
            self.skip(1);
            self.take_word();
        }
        Kind::Other
    }

    fn word(&mut self) -> Kind {
        let start = self.position;
        let word = self.take_word();
        let hashes = self.characters[self.position..].iter().take_while(|character| **character == '#').count();
        let length = self.position - start;
        match (word.as_str(), self.peek(hashes)) {
            ("r" | "br" | "cr", Some('"')) => {
                self.position = start;
                self.raw_text(length, hashes)
            }
            ("b" | "c", Some('"')) if hashes == 0 => {
                self.position = start;
                self.text(length)
            }
            ("b", Some('\'')) if hashes == 0 => self.quote(),
            ("r", Some(next)) if hashes == 1 && (next.is_alphabetic() || next == '_') => {
                self.skip(1);
                Kind::Word(self.take_word())
            }
            _ => Kind::Word(word),
        }
    }

    fn take_word(&mut self) -> String {
        let start = self.position;
        while self.peek(0).is_some_and(|character| character.is_alphanumeric() || character == '_') {
            self.skip(1);
        }
        self.characters[start..self.position].iter().collect()
    }
}
