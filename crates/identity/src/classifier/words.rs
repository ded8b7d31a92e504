//! Words of identifiers and sentences, and the infinitive of an inflected verb. This module knows only forms, no meanings.

/// How much of one text is read; later text says little about what a tool does.
pub(super) const DESCRIPTION_BYTES_MAX: usize = 6_000;

/// Brand names with a capital inside, which would be split, and one of them (`NuGet`) as a verb.
const BRANDS: [(&str, &str); 8] = [
    ("NuGet", "Nuget"),
    ("GitHub", "Github"),
    ("GitLab", "Gitlab"),
    ("JavaScript", "Javascript"),
    ("TypeScript", "Typescript"),
    ("WordPress", "Wordpress"),
    ("MySQL", "Mysql"),
    ("PostgreSQL", "Postgresql"),
];

/// Whether a list of words that are separated by one space each has a word. Bytes are compared, because a description is compared with
/// dozens of lists and every tool has one.
pub(super) fn is_listed(list: &str, word: &str) -> bool {
    list.as_bytes().split(|byte| *byte == b' ').any(|listed| listed == word.as_bytes())
}

/// The words of an identifier, in lower case: `getDNSRecordsV1`, `get-dns.records_v1` and `get dns records` give the same. A
/// trailing version (`v1`) is left out.
pub(super) fn split_identifier(text: &str) -> Vec<String> {
    let branded = BRANDS.iter().filter(|(brand, _)| text.contains(brand));
    let whole = branded.fold(text.to_owned(), |text, (brand, word)| text.replace(brand, word));
    let characters: Vec<char> = whole.chars().take(256).collect();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for (at, character) in characters.iter().copied().enumerate() {
        if !character.is_alphanumeric() {
            close(&mut words, &mut word);
            continue;
        }
        let before = at.checked_sub(1).and_then(|before| characters.get(before)).copied();
        let after = characters.get(at + 1).copied();
        if character.is_uppercase() {
            let after_small = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
            let ends_acronym = before.is_some_and(char::is_uppercase) && after.is_some_and(char::is_lowercase);
            // `URLs` and `IDs` are one word each.
            let plural = after == Some('s') && characters.get(at + 2).is_none_or(|next| !next.is_lowercase());
            if after_small || (ends_acronym && !plural) {
                close(&mut words, &mut word);
            }
        }
        word.extend(character.to_lowercase());
    }
    close(&mut words, &mut word);
    if words.len() > 1 && words.last().is_some_and(|last| is_version(last)) {
        words.pop();
    }
    words
}

fn close(words: &mut Vec<String>, word: &mut String) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

fn is_version(word: &str) -> bool {
    word.strip_prefix('v').is_some_and(|rest| !rest.is_empty() && rest.chars().all(|digit| digit.is_ascii_digit()))
}

/// One sentence of a text: its words in lower case, and the commas and parentheses between them.
pub(super) type Sentence = Vec<String>;

/// The sentences of a text. Lines, list items and full stops end one; markup, links and emoji are not words.
pub(super) fn sentences(text: &str, sentences_max: usize) -> Vec<Sentence> {
    let mut sentences: Vec<Sentence> = Vec::new();
    let mut sentence: Sentence = Vec::new();
    let mut word = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
            continue;
        }
        let next = characters.peek().copied();
        let inside = !word.is_empty() && next.is_some_and(char::is_alphanumeric);
        if inside && matches!(character, '_' | '\'' | '’' | '-' | '/' | '.' | '@') {
            // `read-only` is one word, `don't` is one word, `e.g.` and `users/me` are no sentence ends.
            match character {
                '’' => word.push('\''),
                '/' => close(&mut sentence, &mut word),
                other => word.push(other),
            }
            continue;
        }
        close(&mut sentence, &mut word);
        let ends = matches!(character, '\n' | '!' | '?' | ';' | '。' | '•')
            || (matches!(character, '.' | ':') && next.is_none_or(char::is_whitespace))
            || (character == '-' && sentence.len() > 1 && next == Some(' '));
        let mark = match character {
            ',' | '—' | '–' => Some(","),
            '(' => Some("("),
            ')' => Some(")"),
            _ => None,
        };
        if let Some(mark) = mark.filter(|_| !sentence.is_empty()) {
            sentence.push(mark.to_owned());
        }
        if ends && !sentence.is_empty() {
            sentences.push(std::mem::take(&mut sentence));
            if sentences.len() >= sentences_max {
                return sentences;
            }
        }
    }
    close(&mut sentence, &mut word);
    if !sentence.is_empty() {
        sentences.push(sentence);
    }
    sentences
}

/// At most so many bytes, cut between characters.
pub(super) fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// The form of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VerbForm {
    /// `create`.
    Infinitive,
    /// `creates`.
    Third,
    /// `creating`.
    Gerund,
    /// `created`: more often an adjective than a verb.
    Participle,
}

/// The infinitives of an inflected word, the likeliest first.
pub(super) fn infinitives(word: &str) -> Vec<(String, VerbForm)> {
    let mut found = vec![(word.to_owned(), VerbForm::Infinitive)];
    let mut offer = |stem: &str, ending: &str, form| found.push((format!("{stem}{ending}"), form));
    if let Some(stem) = word.strip_suffix("ies") {
        offer(stem, "y", VerbForm::Third);
    }
    if let Some(stem) = word.strip_suffix('s') {
        offer(stem, "", VerbForm::Third);
    }
    if let Some(stem) = word.strip_suffix("es") {
        offer(stem, "", VerbForm::Third);
    }
    for (ending, form) in [("ing", VerbForm::Gerund), ("ed", VerbForm::Participle)] {
        if let Some(stem) = word.strip_suffix(ending) {
            offer(stem, "", form);
            offer(stem, "e", form);
            if let Some(single) = without_doubled(stem) {
                offer(single, "", form);
            }
        }
    }
    if let Some(stem) = word.strip_suffix("ied") {
        offer(stem, "y", VerbForm::Participle);
    }
    found
}

/// `runn` (of `running`) without its second `n`.
fn without_doubled(stem: &str) -> Option<&str> {
    let mut from_end = stem.chars().rev();
    let (last, before) = (from_end.next()?, from_end.next()?);
    (last == before && last.is_ascii_alphabetic()).then(|| stem.get(..stem.len() - 1)).flatten()
}

/// Whether a text is mostly in letters this classifier cannot read.
pub(super) fn is_foreign(text: &str) -> bool {
    let letters = text.chars().filter(|character| character.is_alphabetic());
    let (total, foreign) = letters
        .fold((0_usize, 0_usize), |(total, foreign), letter| (total + 1, foreign + usize::from(!letter.is_ascii())));
    total > 0 && foreign * 10 > total * 3
}
