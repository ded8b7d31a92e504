//! Cuts shell text into words and joints, for the part of the language that every shell reads alike: literal words, quotes without
//! expansions, plain globs, `|`, `&&`, `||`, `;` and line ends. At anything else it stops and names it.

/// A piece of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ShellToken {
    Word(ShellWord),
    /// `|`, `&&` or `||`: another command has to follow.
    Joint,
    /// `;` or the end of a line.
    End,
}

/// A word after quotes were taken off.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellWord {
    /// What the command gets, with globs as they were written.
    pub(super) text: String,
    /// Whether the shell may put file names in its place.
    pub(super) has_glob: bool,
    /// Whether a file name that the shell puts in its place may begin with any character, `-` included.
    pub(super) begins_with_glob: bool,
}

impl ShellToken {
    pub(super) fn word(&self) -> Option<&ShellWord> {
        match self {
            Self::Word(word) => Some(word),
            Self::Joint | Self::End => None,
        }
    }
}

/// The pieces of `text`, or what in it is not of that part of the language.
pub(super) fn lex(text: &str, tokens_max: usize) -> Result<Vec<ShellToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([' ', '\t']);
        let Some(next) = rest.chars().next() else { return Ok(tokens) };
        if tokens.len() >= tokens_max {
            return Err(format!("the text has more than {tokens_max} words"));
        }
        if let Some(after) = discarded_errors(rest) {
            rest = after;
            continue;
        }
        let (token, after) = match next {
            '\n' | ';' => (ShellToken::End, rest.get(1..)),
            '|' if rest.starts_with("||") => (ShellToken::Joint, rest.get(2..)),
            '|' if rest.starts_with("|&") => return Err("`|&` is not read".to_owned()),
            '|' => (ShellToken::Joint, rest.get(1..)),
            '&' if rest.starts_with("&&") => (ShellToken::Joint, rest.get(2..)),
            '&' => return Err("a command in the background".to_owned()),
            _ => {
                let (word, after) = word(rest)?;
                (ShellToken::Word(word), Some(after))
            }
        };
        tokens.push(token);
        rest = after.unwrap_or_default();
    }
}

/// What follows `2>/dev/null` or `2>&1`, the redirections that change nothing.
fn discarded_errors(rest: &str) -> Option<&str> {
    let target = rest.strip_prefix("2>")?;
    let after =
        target.strip_prefix("&1").or_else(|| target.trim_start_matches([' ', '\t']).strip_prefix("/dev/null"))?;
    let ends = after.chars().next().is_none_or(|next| matches!(next, ' ' | '\t' | '\n' | ';' | '|' | '&'));
    ends.then_some(after)
}

/// The word at the beginning of `rest`, and what follows it.
fn word(rest: &str) -> Result<(ShellWord, &str), String> {
    let mut word = ShellWord::default();
    let mut characters = rest.char_indices();
    let mut is_begun = false;
    while let Some((at, character)) = characters.next() {
        match character {
            ' ' | '\t' | '\n' | ';' | '|' | '&' => return Ok((finished(word), rest.get(at..).unwrap_or_default())),
            '\'' => single_quoted(&mut word, &mut characters)?,
            '"' => double_quoted(&mut word, &mut characters)?,
            // With another character beside the `!`, a shell may look for a command in its history.
            '!' if !is_begun && rest.get(1..).is_none_or(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])) => {
                word.text.push('!');
            }
            '\\' => match characters.next() {
                Some((_, escaped)) if escaped.is_ascii_punctuation() || escaped == ' ' => word.text.push(escaped),
                _ => return Err("a backslash that shells may read differently".to_owned()),
            },
            '*' | '?' | '[' => {
                word.begins_with_glob |= word.text.is_empty();
                word.has_glob = true;
                word.text.push(character);
            }
            // `=x` is a path to zsh, `^` a pipe or history to others, `#` a comment.
            '=' | '#' if !is_begun => return Err(format!("a word that begins with `{character}`")),
            _ if is_plain(character) => word.text.push(character),
            _ => return Err(beyond(character)),
        }
        is_begun = true;
    }
    Ok((finished(word), ""))
}

/// A bracket by itself is no glob.
fn finished(word: ShellWord) -> ShellWord {
    match word.text.as_str() {
        "[" => ShellWord { text: word.text, ..ShellWord::default() },
        _ => word,
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "]%+,-./:=@_#".contains(character)
}

fn beyond(character: char) -> String {
    match character {
        '$' | '`' => "an expansion".to_owned(),
        '<' | '>' => "a redirection other than `2>/dev/null` and `2>&1`".to_owned(),
        '(' | ')' | '{' | '}' => "a group, a substitution or braces".to_owned(),
        '~' | '!' | '^' => format!("`{character}` outside quotes, which shells expand"),
        _ => "a character outside quotes that shells may read differently".to_owned(),
    }
}

fn single_quoted(word: &mut ShellWord, characters: &mut std::str::CharIndices<'_>) -> Result<(), String> {
    for (_, character) in characters {
        match character {
            '\'' => return Ok(()),
            _ => word.text.push(quotable(character)?),
        }
    }
    Err("a quote without an end".to_owned())
}

fn double_quoted(word: &mut ShellWord, characters: &mut std::str::CharIndices<'_>) -> Result<(), String> {
    while let Some((_, character)) = characters.next() {
        match character {
            '"' => return Ok(()),
            // Before the closing quote or a blank, `$` stands for itself.
            '$' if characters.clone().next().is_some_and(|(_, next)| matches!(next, '"' | ' ')) => word.text.push('$'),
            '$' | '`' => return Err("an expansion".to_owned()),
            // An interactive shell looks for a command in its history.
            '!' => return Err("`!` in double quotes".to_owned()),
            '\\' => match characters.next() {
                // Before any other character the backslash stays.
                Some((_, next)) if !matches!(next, '$' | '`' | '"' | '\\' | '!' | '\n') => {
                    word.text.push('\\');
                    word.text.push(quotable(next)?);
                }
                _ => return Err("a backslash that shells may read differently".to_owned()),
            },
            _ => word.text.push(quotable(character)?),
        }
    }
    Err("a quote without an end".to_owned())
}

fn quotable(character: char) -> Result<char, String> {
    if character.is_control() && !matches!(character, '\n' | '\t') {
        return Err("a control character".to_owned());
    }
    Ok(character)
}
