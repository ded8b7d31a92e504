//! Splits a file of policies into single ones, so that each is parsed by itself: every mistake of a file is reported, not only
//! the first, and each with its line.

/// A policy's text and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyText<'a> {
    pub text: &'a str,
    pub offset: usize,
    /// How deep its brackets are nested.
    pub depth: usize,
    /// How many `&&` and `||` it has.
    pub joins: usize,
    /// The most steps, sums and the like in one condition: each can make it one level deeper, without any bracket.
    pub steps: usize,
    /// How many `if`s it has.
    pub ifs: usize,
}

/// The policies of a text. Text after the last `;` is one too, unless it is empty: Cedar reports what is missing.
pub(crate) fn pieces(text: &str) -> Vec<PolicyText<'_>> {
    let mut splitting = PolicySplitter { text, pieces: Vec::new(), start: None, counts: SyntaxCounts::default() };
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += splitting.token(at, rest);
    }
    splitting.end(text.len());
    splitting.pieces
}

/// The clauses of a policy: whether each is a `when`, and the text between its braces.
pub(crate) fn clauses(text: &str) -> Vec<(bool, &str)> {
    let (mut found, mut at, mut depth, mut start, mut word) = (Vec::new(), 0, 0_usize, 0, "");
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let length = token_len(rest);
        match rest.chars().next() {
            Some('{') if depth == 0 => (depth, start) = (1, at + 1),
            Some('{') => depth += 1,
            Some('}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    found.push((word == "when", text.get(start..at).unwrap_or_default()));
                }
            }
            Some(first) if first.is_ascii_alphabetic() && depth == 0 => {
                word = rest.get(..length).unwrap_or_default();
            }
            _ => {}
        }
        at += length;
    }
    found
}

/// The line and column of an offset, counted from one.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or_default();
    let line_start = before.rfind(['\n', '\r']).map_or(0, |at| at + 1);
    // A carriage return alone ends a line; one before a line feed does not end another.
    let breaks = before.replace("\r\n", "\n");
    let line = breaks.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1;
    (line, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}

struct PolicySplitter<'a> {
    text: &'a str,
    pieces: Vec<PolicyText<'a>>,
    start: Option<usize>,
    counts: SyntaxCounts,
}

/// The counts of the current policy so far.
#[derive(Default)]
struct SyntaxCounts {
    depth: usize,
    deepest: usize,
    joins: usize,
    steps: usize,
    most_steps: usize,
    ifs: usize,
}

impl PolicySplitter<'_> {
    /// Consumes the token at the beginning of the rest, and returns its length.
    fn token(&mut self, at: usize, rest: &str) -> usize {
        let length = token_len(rest);
        let Some(first) = rest.chars().next().filter(|first| !first.is_whitespace()) else { return length };
        if rest.starts_with("//") {
            return length;
        }
        self.start.get_or_insert(at);
        match first {
            ';' => self.end(at + 1),
            '&' | '|' if length == 2 => self.counts.join(),
            _ => self.counts.take(first, rest),
        }
        length
    }

    fn end(&mut self, end: usize) {
        let counts = std::mem::take(&mut self.counts);
        if let Some(offset) = self.start.take()
            && let Some(text) = self.text.get(offset..end)
        {
            self.pieces.push(PolicyText {
                text,
                offset,
                depth: counts.deepest,
                joins: counts.joins,
                steps: counts.most_steps,
                ifs: counts.ifs,
            });
        }
    }
}

impl SyntaxCounts {
    fn join(&mut self) {
        self.joins += 1;
        self.steps = 0;
    }

    fn take(&mut self, first: char, rest: &str) {
        match first {
            '(' | '[' | '{' => {
                self.depth += 1;
                self.deepest = self.deepest.max(self.depth);
            }
            ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
            _ if rest.starts_with("if") => self.ifs += 1,
            _ => {}
        }
        match first {
            ',' => self.steps = 0,
            '}' if self.depth == 0 => self.steps = 0,
            '.' | '[' | '+' | '-' | '*' | '!' => self.steps += 1,
            _ => {}
        }
        self.most_steps = self.most_steps.max(self.steps);
    }
}

/// The length of the first token: a comment, a string, a word, a joining operator, or a single character.
fn token_len(rest: &str) -> usize {
    let first = rest.chars().next().unwrap_or(' ');
    if rest.starts_with("//") {
        // Like in Cedar, a carriage return ends a comment too, and what follows counts.
        rest.find(['\n', '\r']).unwrap_or(rest.len())
    } else if first == '"' {
        string_len(rest)
    } else if first.is_ascii_alphabetic() || first == '_' {
        rest.find(|inner: char| !inner.is_ascii_alphanumeric() && inner != '_').unwrap_or(rest.len())
    } else if rest.starts_with("&&") || rest.starts_with("||") {
        2
    } else {
        first.len_utf8()
    }
}

fn string_len(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}
