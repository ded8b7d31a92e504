//! Words of shell text: what a word says once its quotes are gone, and whether what is not written out could be an option. It reads
//! the bytes of a word itself, so that it does not depend on how the parser took the word apart; a word that holds what no word can
//! hold is not understood.

use std::collections::HashMap;

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    /// Written out. Of an option with a value that is not, the part that is.
    Literal(String),
    /// Not written out (a variable of the environment, a pattern for file names), and nothing in the text can make it an option.
    Operand,
    /// Made by the text itself in a way that is not followed: it may be anything.
    Computed,
}

impl Arg {
    pub(super) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            _ => None,
        }
    }
}

/// What a variable may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Literal(String),
    Operand,
    Computed,
}

/// The variables that a text sets. Others are the environment's.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: HashMap<String, Value>,
    /// What `$1`, `$@` may hold.
    pub(super) positional_computed: bool,
    /// Words are split elsewhere than at white space.
    pub(super) separator_set: bool,
}

impl Variables {
    pub(super) fn set(&mut self, name: &str, value: Value) {
        let plain = |value: &Value| match value {
            Value::Literal(text) => !text.starts_with('-') && !text.contains([' ', '\t', '\n']),
            Value::Operand => true,
            Value::Computed => false,
        };
        let merged = match self.values.remove(name) {
            None => value,
            Some(earlier) if earlier == value => value,
            Some(earlier) if plain(&earlier) && plain(&value) => Value::Operand,
            Some(_) => Value::Computed,
        };
        self.values.insert(name.to_owned(), merged);
    }

    fn get(&self, name: &str) -> Value {
        let positional = name.starts_with(|c: char| c.is_ascii_digit() && c != '0') || name == "@" || name == "*";
        match self.values.get(name) {
            Some(value) => value.clone(),
            None if positional && self.positional_computed => Value::Computed,
            None => Value::Operand,
        }
    }
}

/// The word is not one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAWord;

/// The arguments that the word `source` becomes.
pub(super) fn read(source: &str, variables: &Variables) -> Result<Vec<Arg>, NotAWord> {
    if let Some(name) = whole_variable(source)
        && let Value::Literal(text) = variables.get(name)
    {
        if variables.separator_set {
            return Ok(vec![Arg::Computed]);
        }
        return Ok(text.split_ascii_whitespace().map(|word| Arg::Literal(word.to_owned())).collect());
    }
    let mut reader =
        Reader { chars: source.char_indices().peekable(), source, variables, out: Built::default(), done: Vec::new() };
    reader.run()?;
    let mut args = reader.done;
    args.push(reader.out.arg());
    Ok(args)
}

/// `$x` or `${x}`, unquoted and nothing else.
fn whole_variable(source: &str) -> Option<&str> {
    let rest = source.strip_prefix('$')?;
    let name = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(rest);
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then_some(name)
}

// Each is a fact about a word that its kind is worked out from at the end; none excludes another.
#[allow(clippy::struct_excessive_bools)]
#[derive(Default)]
struct Built {
    text: String,
    /// How much of `text` comes before the first part that is not written out.
    prefix_bytes: Option<usize>,
    computed: bool,
    /// A part that is computed stands outside quotes, so it may become several words.
    splits: bool,
    pattern: bool,
    braces: bool,
}

impl Built {
    fn dynamic(&mut self, computed: bool, quoted: bool) {
        self.prefix_bytes.get_or_insert(self.text.len());
        self.computed |= computed;
        self.splits |= computed && !quoted;
    }

    fn arg(self) -> Arg {
        let dashed = self.text.starts_with('-');
        if self.braces
            && self.text.contains('{')
            && self.text.contains('}')
            && (self.text.contains(',') || self.text.contains(".."))
        {
            let option = dashed || self.text.contains("{-") || self.text.contains(",-") || self.computed;
            return if option { Arg::Computed } else { Arg::Operand };
        }
        match self.prefix_bytes {
            None if !self.pattern => Arg::Literal(self.text),
            None if dashed => Arg::Computed,
            None => Arg::Operand,
            Some(_) if self.splits => Arg::Computed,
            Some(bytes) => {
                let prefix = self.text.get(..bytes).unwrap_or_default();
                match (prefix.starts_with('-'), self.computed) {
                    (true, true) if prefix.contains('=') => Arg::Literal(prefix.to_owned()),
                    (true, false) if prefix.len() > 1 => Arg::Literal(prefix.to_owned()),
                    (true, _) => Arg::Computed,
                    (false, true) if prefix.is_empty() => Arg::Computed,
                    (false, _) => Arg::Operand,
                }
            }
        }
    }
}

struct Reader<'a> {
    chars: std::iter::Peekable<std::str::CharIndices<'a>>,
    source: &'a str,
    variables: &'a Variables,
    out: Built,
    /// The words before the last: the grammar takes `` `a` `b` `` for one.
    done: Vec<Arg>,
}

impl Reader<'_> {
    fn run(&mut self) -> Result<(), NotAWord> {
        while let Some((at, c)) = self.chars.next() {
            match c {
                '\\' => match self.chars.next() {
                    Some((_, '\n')) | None => {}
                    Some((_, c)) => self.out.text.push(c),
                },
                '\'' => self.raw()?,
                '"' => self.double()?,
                '$' => self.dollar(at, false)?,
                '`' => {
                    let computed = self.skip_backticks(at)?;
                    self.out.dynamic(computed, false);
                }
                '<' | '>' if self.chars.peek().is_some_and(|(_, c)| *c == '(') => {
                    self.chars.next();
                    self.skip_group('(', ')')?;
                    self.out.dynamic(false, true);
                }
                '?' | '*' | '+' | '@' | '!' if self.chars.peek().is_some_and(|(_, c)| *c == '(') => {
                    self.chars.next();
                    self.skip_group('(', ')')?;
                    self.out.pattern = true;
                    self.out.text.push(c);
                }
                '*' | '?' | '[' => {
                    self.out.pattern = true;
                    self.out.text.push(c);
                }
                '{' => {
                    self.out.braces = true;
                    self.out.text.push(c);
                }
                ' ' | '\t' => {
                    while self.chars.next_if(|(_, c)| matches!(c, ' ' | '\t')).is_some() {}
                    self.done.push(std::mem::take(&mut self.out).arg());
                }
                '\n' | '\r' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => return Err(NotAWord),
                c => self.out.text.push(c),
            }
        }
        Ok(())
    }

    fn raw(&mut self) -> Result<(), NotAWord> {
        loop {
            match self.chars.next() {
                Some((_, '\'')) => return Ok(()),
                Some((_, c)) => self.out.text.push(c),
                None => return Err(NotAWord),
            }
        }
    }

    fn double(&mut self) -> Result<(), NotAWord> {
        loop {
            match self.chars.next() {
                Some((_, '"')) => return Ok(()),
                Some((_, '\\')) => match self.chars.next() {
                    Some((_, '\n')) => {}
                    Some((_, c @ ('$' | '`' | '"' | '\\'))) => self.out.text.push(c),
                    Some((_, c)) => {
                        self.out.text.push('\\');
                        self.out.text.push(c);
                    }
                    None => return Err(NotAWord),
                },
                Some((at, '$')) => self.dollar(at, true)?,
                Some((at, '`')) => {
                    let computed = self.skip_backticks(at)?;
                    self.out.dynamic(computed, true);
                }
                Some((_, c)) => self.out.text.push(c),
                None => return Err(NotAWord),
            }
        }
    }

    fn dollar(&mut self, at: usize, quoted: bool) -> Result<(), NotAWord> {
        match self.chars.peek().map(|(_, c)| *c) {
            Some('\'') if !quoted => {
                self.chars.next();
                self.ansi()
            }
            Some('"') if !quoted => {
                self.chars.next();
                self.double()
            }
            Some('(') => {
                self.chars.next();
                let end = self.skip_group('(', ')')?;
                let inside = self.source.get(at + 2..end).unwrap_or_default();
                // An arithmetic expansion is a number.
                let number = inside.starts_with('(') && inside.ends_with(')');
                self.out.dynamic(!number && !is_plain_command(inside), quoted);
                Ok(())
            }
            Some('[') => {
                self.chars.next();
                self.skip_group('[', ']')?;
                self.out.dynamic(false, quoted);
                Ok(())
            }
            Some('{') => {
                self.chars.next();
                let end = self.skip_group('{', '}')?;
                self.braced(at + 2, end, quoted);
                Ok(())
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let mut name = String::new();
                while let Some((_, c)) = self.chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                self.variable(&name, quoted);
                Ok(())
            }
            Some(c) if c.is_ascii_digit() || "@*#?$!-".contains(c) => {
                self.chars.next();
                self.variable(c.encode_utf8(&mut [0; 4]), quoted);
                Ok(())
            }
            _ => {
                self.out.text.push('$');
                Ok(())
            }
        }
    }

    fn variable(&mut self, name: &str, quoted: bool) {
        match self.variables.get(name) {
            Value::Literal(text)
                if quoted || !(text.contains([' ', '\t', '\n', '*', '?', '[']) || self.variables.separator_set) =>
            {
                self.out.text.push_str(&text);
            }
            Value::Literal(_) | Value::Computed => self.out.dynamic(true, quoted),
            Value::Operand => self.out.dynamic(false, quoted),
        }
    }

    /// `${name}`, or with something done to it: what takes characters away keeps its kind, what puts some in does not.
    fn braced(&mut self, start: usize, end: usize, quoted: bool) {
        let inside = self.source.get(start..end).unwrap_or_default();
        let length = inside.strip_prefix('#').is_some_and(|rest| !rest.is_empty());
        let name_bytes = inside
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@' || byte == b'*'))
            .unwrap_or(inside.len());
        let (name, rest) = (inside.get(..name_bytes).unwrap_or_default(), inside.get(name_bytes..).unwrap_or_default());
        let computed = match self.variables.get(name) {
            _ if length => false,
            Value::Literal(text) if rest.is_empty() && quoted => {
                self.out.text.push_str(&text);
                return;
            }
            Value::Literal(_) | Value::Computed => true,
            Value::Operand => {
                name.is_empty() || !(rest.is_empty() || rest.starts_with(['%', '#', '^', ',', '[']) || is_slice(rest))
            }
        };
        self.out.dynamic(computed, quoted);
    }

    fn ansi(&mut self) -> Result<(), NotAWord> {
        loop {
            match self.chars.next() {
                Some((_, '\'')) => return Ok(()),
                Some((_, '\\')) => match self.chars.next() {
                    Some((_, 'n')) => self.out.text.push('\n'),
                    Some((_, 't')) => self.out.text.push('\t'),
                    Some((_, 'r')) => self.out.text.push('\r'),
                    Some((_, c @ ('\\' | '\'' | '"' | '?'))) => self.out.text.push(c),
                    // Octal, hexadecimal and the rest spell characters to hide them.
                    Some(_) => self.out.dynamic(true, true),
                    None => return Err(NotAWord),
                },
                Some((_, c)) => self.out.text.push(c),
                None => return Err(NotAWord),
            }
        }
    }

    /// Whether what the backticks say may be anything.
    fn skip_backticks(&mut self, open: usize) -> Result<bool, NotAWord> {
        loop {
            match self.chars.next() {
                Some((close, '`')) => {
                    return Ok(!is_plain_command(self.source.get(open + 1..close).unwrap_or_default()));
                }
                Some((_, '\\')) => {
                    self.chars.next();
                }
                Some(_) => {}
                None => return Err(NotAWord),
            }
        }
    }

    /// To the end of a group whose opening is behind us; where it closes.
    fn skip_group(&mut self, open: char, close: char) -> Result<usize, NotAWord> {
        let mut depth = 1_usize;
        let mut double = false;
        while let Some((at, c)) = self.chars.next() {
            match c {
                '\\' => {
                    self.chars.next();
                }
                '"' => double = !double,
                '\'' if !double => while self.chars.next().ok_or(NotAWord)?.1 != '\'' {},
                c if c == open => depth += 1,
                c if c == close => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at);
                    }
                }
                _ => {}
            }
        }
        Err(NotAWord)
    }
}

/// `:0:3`, but not `:-default`.
fn is_slice(rest: &str) -> bool {
    rest.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == ' ' || c == '$'))
}

/// Commands whose output no text can make look like an option.
fn is_plain_command(inside: &str) -> bool {
    [
        "pwd",
        "pwd -P",
        "pwd -L",
        "whoami",
        "hostname",
        "id -u",
        "id -un",
        "id -g",
        "uname",
        "uname -r",
        "uname -s",
        "mktemp",
        "mktemp -d",
        "nproc",
    ]
    .contains(&inside.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_quotes_and_show_what_they_cannot_say() {
        let mut variables = Variables::default();
        variables.set("known", Value::Literal("rm -rf".to_owned()));
        variables.set("computed", Value::Computed);
        let literal = |text: &str| Ok(vec![Arg::Literal(text.to_owned())]);
        for (source, expected) in [
            ("rm", literal("rm")),
            ("\\rm", literal("rm")),
            ("r\"m\"", literal("rm")),
            ("r''m", literal("rm")),
            ("$'rm'", literal("rm")),
            ("$'\\x72m'", Ok(vec![Arg::Computed])),
            ("'a b'", literal("a b")),
            ("$known", Ok(vec![Arg::Literal("rm".to_owned()), Arg::Literal("-rf".to_owned())])),
            ("\"$known\"", literal("rm -rf")),
            ("$HOME", Ok(vec![Arg::Operand])),
            ("\"$HOME/x\"", Ok(vec![Arg::Operand])),
            ("$computed", Ok(vec![Arg::Computed])),
            ("./\"$computed\"", Ok(vec![Arg::Operand])),
            ("./$computed", Ok(vec![Arg::Computed])),
            ("${HOME:--delete}", Ok(vec![Arg::Computed])),
            ("${HOME%/*}", Ok(vec![Arg::Operand])),
            ("$(echo -delete)", Ok(vec![Arg::Computed])),
            ("$(pwd)", Ok(vec![Arg::Operand])),
            ("*.txt", Ok(vec![Arg::Operand])),
            ("{-delete,x}", Ok(vec![Arg::Computed])),
            ("a;b", Err(NotAWord)),
            ("`a` b", Ok(vec![Arg::Computed, Arg::Literal("b".to_owned())])),
            ("`pwd`", Ok(vec![Arg::Operand])),
            ("'a", Err(NotAWord)),
        ] {
            assert_eq!(read(source, &variables), expected, "{source}");
        }
    }
}
