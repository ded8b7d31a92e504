//! sed: its options, and a reader of its scripts that finds what writes (`w`, `s///w`) or runs (`e`, `s///e`). A script that it
//! cannot follow is `unknown`.

use crate::effects::Finding;
use crate::effects::shell::word::Arg;

/// What `sed` with these arguments does.
pub(super) fn judge(args: &[Arg]) -> Finding {
    if args.contains(&Arg::Computed) {
        return Finding::unknown("an argument of sed is computed and may be an option");
    }
    let words: Vec<Option<&str>> = args.iter().map(Arg::literal).collect();
    let (mut scripts, mut operands, mut at) = (Vec::new(), Vec::new(), 0);
    let mut only_operands = false;
    while let Some(word) = words.get(at) {
        at += 1;
        let Some(word) = word else {
            operands.push(None);
            continue;
        };
        if only_operands || !word.starts_with('-') || *word == "-" {
            operands.push(Some(*word));
        } else if *word == "--" {
            only_operands = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            let value = long.split_once('=').map(|(_, value)| value);
            match name {
                "expression" => scripts.push(value.or_else(|| take(&words, &mut at))),
                "quiet" | "silent" | "regexp-extended" | "null-data" | "separate" | "unbuffered" | "posix"
                | "debug" | "sandbox" | "line-length" | "zero-terminated" | "help" | "version" => {}
                _ if "in-place".starts_with(name) => return Finding::write("sed --in-place edits files"),
                _ => return Finding::unknown("sed with this option is not known"),
            }
        } else {
            match letters(word, &words, &mut at, &mut scripts) {
                Ok(()) => {}
                Err(finding) => return finding,
            }
        }
    }
    if scripts.is_empty() && !operands.is_empty() {
        scripts.push(operands.remove(0));
    }
    for script in scripts {
        let Some(script) = script else { return Finding::unknown("the script of sed is not written out") };
        if let Some(finding) = judge_script(script) {
            return finding;
        }
    }
    Finding::read("sed prints")
}

fn take<'a>(words: &[Option<&'a str>], at: &mut usize) -> Option<&'a str> {
    let word = words.get(*at).copied().flatten();
    *at += 1;
    word
}

fn letters<'a>(
    word: &'a str,
    words: &[Option<&'a str>],
    at: &mut usize,
    scripts: &mut Vec<Option<&'a str>>,
) -> Result<(), Finding> {
    for (place, letter) in word.char_indices().skip(1) {
        let rest = word.get(place + letter.len_utf8()..).unwrap_or_default();
        match letter {
            'n' | 'r' | 'E' | 's' | 'u' | 'z' | 'b' => {}
            'i' | 'I' => return Err(Finding::write("sed -i edits files")),
            'e' => {
                scripts.push(if rest.is_empty() { take(words, at) } else { Some(rest) });
                return Ok(());
            }
            'l' => {
                if rest.is_empty() {
                    *at += 1;
                }
                return Ok(());
            }
            'f' => return Err(Finding::unknown("sed runs a script from a file")),
            _ => return Err(Finding::unknown("sed with this option is not known")),
        }
    }
    Ok(())
}

/// What of a script writes or runs. Programs called sed disagree on whether a delimiter in brackets counts: the newer reading must
/// be harmless, and the older one must not be known to be otherwise.
fn judge_script(script: &str) -> Option<Finding> {
    let newer = judge_reading(script, true);
    if newer.is_some() || !script.contains('[') {
        return newer;
    }
    judge_reading(script, false).filter(|finding| *finding != not_followed())
}

fn judge_reading(script: &str, brackets: bool) -> Option<Finding> {
    let mut reader = Script { rest: script, brackets };
    loop {
        reader.rest = reader.rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}']);
        if reader.rest.is_empty() {
            return None;
        }
        match reader.command() {
            Ok(()) => {}
            Err(finding) => return Some(finding),
        }
    }
}

struct Script<'a> {
    rest: &'a str,
    /// A delimiter in brackets does not count.
    brackets: bool,
}

impl<'a> Script<'a> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// To the delimiter of a regular expression.
    fn pattern(&mut self, delimiter: char) -> Result<(), Finding> {
        while let Some(c) = self.next() {
            match c {
                _ if c == delimiter => return Ok(()),
                '\\' => {
                    self.next();
                }
                '[' if self.brackets => self.bracket()?,
                _ => {}
            }
        }
        Err(not_followed())
    }

    /// To the `]` of a bracket expression: one that comes first is a member, and so are those of classes.
    fn bracket(&mut self) -> Result<(), Finding> {
        self.rest = self.rest.strip_prefix('^').unwrap_or(self.rest);
        self.rest = self.rest.strip_prefix(']').unwrap_or(self.rest);
        loop {
            match self.next() {
                Some(']') => return Ok(()),
                Some('[') if matches!(self.peek(), Some(':' | '.' | '=')) => {
                    let kind = self.next().ok_or_else(not_followed)?;
                    let end = self
                        .rest
                        .find([kind, '\n'])
                        .filter(|end| self.rest.get(end + 1..).is_some_and(|rest| rest.starts_with(']')))
                        .ok_or_else(not_followed)?;
                    self.rest = self.rest.get(end + 2..).unwrap_or_default();
                }
                Some('\n') | None => return Err(not_followed()),
                Some(_) => {}
            }
        }
    }

    /// To the delimiter, which a backslash hides.
    fn until(&mut self, delimiter: char) -> Result<&'a str, Finding> {
        let start = self.rest;
        let mut bytes = 0;
        while let Some(c) = self.next() {
            if c == delimiter {
                return Ok(start.get(..bytes).unwrap_or_default());
            }
            bytes += c.len_utf8();
            if c == '\\' {
                bytes += self.next().map_or(0, char::len_utf8);
            }
        }
        Err(not_followed())
    }

    fn line(&mut self) -> &'a str {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        line
    }

    fn address(&mut self) -> Result<(), Finding> {
        match self.peek() {
            Some('/') => {
                self.next();
                self.pattern('/')?;
                self.rest = self.rest.trim_start_matches(['I', 'M']);
            }
            Some('\\') => {
                self.next();
                let delimiter = self.next().ok_or_else(not_followed)?;
                self.pattern(delimiter)?;
                self.rest = self.rest.trim_start_matches(['I', 'M']);
            }
            Some('$') => {
                self.next();
            }
            Some(c) if c.is_ascii_digit() || c == '+' || c == '~' => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '~' || c == '+');
            }
            _ => {}
        }
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        Ok(())
    }

    fn command(&mut self) -> Result<(), Finding> {
        self.address()?;
        if self.peek() == Some(',') {
            self.next();
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            self.address()?;
        }
        self.rest = self.rest.trim_start_matches(['!', ' ', '\t']);
        match self.next() {
            Some('s') => self.substitute(),
            Some('y') => {
                let delimiter = self.next().ok_or_else(not_followed)?;
                self.until(delimiter)?;
                self.until(delimiter).map(|_| ())
            }
            Some('w' | 'W') => writes(self.line()),
            Some('e') => Err(Finding::unknown("the e command of sed runs a program")),
            Some('a' | 'i' | 'c') => {
                // The text goes on over lines that end with a backslash.
                while self.line().ends_with('\\') {
                    self.next();
                }
                Ok(())
            }
            Some('r' | 'R' | ':' | 'v' | '#') => {
                self.line();
                Ok(())
            }
            Some('b' | 't' | 'T') => {
                self.rest = self.rest.trim_start_matches(|c: char| !matches!(c, ';' | '\n' | '}'));
                Ok(())
            }
            Some('q' | 'Q' | 'l' | 'L') => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                self.end()
            }
            Some('=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F') => self.end(),
            Some('{') | None => Ok(()),
            Some(_) => Err(not_followed()),
        }
    }

    /// A command ends here, or the script was not followed.
    fn end(&self) -> Result<(), Finding> {
        let next = self.rest.trim_start_matches([' ', '\t']).chars().next();
        if next.is_none_or(|next| matches!(next, ';' | '\n' | '}' | '#')) { Ok(()) } else { Err(not_followed()) }
    }

    fn substitute(&mut self) -> Result<(), Finding> {
        let delimiter = self.next().ok_or_else(not_followed)?;
        self.pattern(delimiter)?;
        self.until(delimiter)?;
        loop {
            match self.peek() {
                Some('g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9') => {
                    self.next();
                }
                Some('e') => return Err(Finding::unknown("the e flag of sed runs a program")),
                Some('w') => {
                    self.next();
                    return writes(self.line());
                }
                _ => return self.end(),
            }
        }
    }
}

fn writes(target: &str) -> Result<(), Finding> {
    if ["/dev/stdout", "/dev/stderr"].contains(&target.trim()) {
        Ok(())
    } else {
        Err(Finding::write("the w command of sed writes a file"))
    }
}

fn not_followed() -> Finding {
    Finding::unknown("the script of sed could not be followed")
}
