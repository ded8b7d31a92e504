//! Builds texts from the parts of a grammar. It knows no grammar itself: each reader supplies its words, its brackets and texts
//! that people really wrote.

use bolero::{Driver, ValueGenerator};

use crate::{
    drawing::{below, length, one_of},
    json_text,
};

/// The longest text that is made.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The parts of the texts for one reader.
#[derive(Debug, Default)]
pub struct Grammar {
    /// Words, signs, and other characters that begin or end something.
    pub words: Vec<&'static str>,
    /// Opening texts, each with its closing text.
    pub brackets: Vec<(&'static str, &'static str)>,
    /// Texts that mean something; changed copies of them are made.
    pub seeds: Vec<&'static str>,
    /// Names of members, for readers of JSON: then half of the texts are JSON, with the words as strings.
    pub members: Vec<&'static str>,
}

/// Makes texts of a grammar.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'g>(pub &'g Grammar);

impl ValueGenerator for Texts<'_> {
    type Output = Vec<u8>;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Vec<u8>> {
        let bytes_max = length(driver, TEXT_BYTES_MAX)?;
        let grammar = self.0;
        if !grammar.members.is_empty() && below(driver, 2)? == 0 {
            return json_text::object(driver, grammar, bytes_max);
        }
        let mut text = match below(driver, 10)? {
            0..=2 => grammar.sequence(driver, bytes_max)?,
            3 | 4 => grammar.repetition(driver, bytes_max)?,
            5 => grammar.nesting(driver, bytes_max)?,
            6..=8 => grammar.mutation(driver, bytes_max)?,
            _ => noise(driver, bytes_max.min(1_024))?,
        };
        text.truncate(TEXT_BYTES_MAX);
        Some(text)
    }
}

impl Grammar {
    /// Words in any order.
    fn sequence<D: Driver>(&self, driver: &mut D, bytes_max: usize) -> Option<Vec<u8>> {
        let separator: &[u8] = one_of(driver, &["", " ", " ", "\n"])?.as_bytes();
        let mut text = Vec::with_capacity(bytes_max + 16);
        while text.len() < bytes_max {
            text.extend_from_slice(self.word(driver)?.as_bytes());
            text.extend_from_slice(separator);
        }
        Some(text)
    }

    /// A few words, then one unit again and again, then its closing text as often, or not at all.
    fn repetition<D: Driver>(&self, driver: &mut D, bytes_max: usize) -> Option<Vec<u8>> {
        let mut text = self.sequence_of(driver, 3)?;
        let (unit, close) = match below(driver, 3)? {
            0 => one_of(driver, &self.brackets)
                .map_or((self.sequence_of(driver, 2)?, ""), |(open, close)| (open.as_bytes().to_vec(), *close)),
            _ => (self.sequence_of(driver, 4)?, ""),
        };
        let (middle, after) = (self.sequence_of(driver, 3)?, self.sequence_of(driver, 2)?);
        let most = bytes_max / (unit.len() + close.len()).max(1);
        // Small enough to stay below a limit about half of the time.
        let count = match below(driver, 3)? {
            0 => most.min(below(driver, 40)?),
            _ => most,
        };
        (0..count).for_each(|_| text.extend_from_slice(&unit));
        text.extend_from_slice(&middle);
        (0..count).for_each(|_| text.extend_from_slice(close.as_bytes()));
        text.extend_from_slice(&after);
        Some(text)
    }

    /// Brackets of all kinds in each other, with words between them.
    fn nesting<D: Driver>(&self, driver: &mut D, bytes_max: usize) -> Option<Vec<u8>> {
        let (mut text, mut closing) = (Vec::new(), Vec::new());
        let depth_max = if below(driver, 2)? == 0 { 8 } else { usize::MAX };
        while text.len() + closing.len() < bytes_max && closing.len() < depth_max {
            let Some((open, close)) = one_of(driver, &self.brackets) else { break };
            text.extend_from_slice(open.as_bytes());
            closing.push(*close);
            if below(driver, 4)? == 0 {
                text.extend(self.sequence_of(driver, 3)?);
            }
        }
        text.extend(self.sequence_of(driver, 3)?);
        for close in closing.into_iter().rev() {
            text.extend_from_slice(close.as_bytes());
        }
        Some(text)
    }

    /// A text that means something, with a few changes.
    fn mutation<D: Driver>(&self, driver: &mut D, bytes_max: usize) -> Option<Vec<u8>> {
        let mut text = one_of(driver, &self.seeds).map_or_else(Vec::new, |seed| seed.as_bytes().to_vec());
        for _ in 0..=below(driver, 6)? {
            let at = below(driver, text.len() + 1)?;
            let to = (at + below(driver, 24)?).min(text.len());
            match below(driver, 6)? {
                0 => drop(text.drain(at..to)),
                1 => drop(text.splice(at..at, self.word(driver)?.bytes())),
                2 => drop(text.splice(at..to, self.word(driver)?.bytes())),
                3 => {
                    let unit = text.get(at..to).unwrap_or_default().to_vec();
                    let count = below(driver, bytes_max / unit.len().max(1) + 2)?;
                    drop(text.splice(at..at, unit.repeat(count.min(20_000))));
                }
                4 => {
                    let other = one_of(driver, &self.seeds).map_or("", |seed| *seed).as_bytes();
                    let from = below(driver, other.len() + 1)?;
                    drop(text.splice(at.., other.get(from..).unwrap_or_default().iter().copied()));
                }
                _ => drop(text.splice(at..to, noise(driver, 4)?)),
            }
        }
        Some(text)
    }

    fn sequence_of<D: Driver>(&self, driver: &mut D, count_max: usize) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        for _ in 0..below(driver, count_max + 1)? {
            text.extend_from_slice(self.word(driver)?.as_bytes());
            if below(driver, 2)? == 0 {
                text.push(b' ');
            }
        }
        Some(text)
    }

    /// A word of the grammar, or a word of no grammar.
    pub(crate) fn word<D: Driver>(&self, driver: &mut D) -> Option<&'static str> {
        match below(driver, 16)? {
            0 => one_of(driver, STRANGE).copied(),
            _ => one_of(driver, &self.words).or(STRANGE.first()).copied(),
        }
    }
}

/// Texts that trip readers of every grammar.
const STRANGE: &[&str] = &[
    "\0",
    "\r",
    "\n",
    "\t",
    "\\",
    "\"",
    "'",
    "`",
    "\u{feff}",
    "\u{200b}",
    "\u{202e}",
    "\u{301}",
    "\u{e9}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{130}",
    "\u{1f468}\u{200d}\u{1f469}",
    "%00",
    "-0",
    "1e309",
    "9007199254740993",
    "18446744073709551616",
    "-9223372036854775808",
    "0.1",
    "__proto__",
    "NaN",
    "a",
    "1",
    " ",
    ";",
];

fn noise<D: Driver>(driver: &mut D, bytes_max: usize) -> Option<Vec<u8>> {
    let count = below(driver, bytes_max + 1)?;
    (0..count).map(|_| below(driver, 256).and_then(|byte| u8::try_from(byte).ok())).collect()
}
