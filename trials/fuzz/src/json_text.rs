//! JSON objects of any shape: deep, wide, with the members that a reader knows and with strings from its grammar.

use bolero::Driver;

use crate::{
    drawing::{below, one_of},
    grammar::Grammar,
};

/// Numbers at the edges of the number types of readers.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "-0",
    "1.0",
    "1e2",
    "1e-9",
    "0.30000000000000004",
    "9007199254740991",
    "9007199254740993",
    "-9223372036854775808",
    "18446744073709551615",
    "1e308",
    "1e309",
    "123456789012345678901234567890",
    "0.0001",
    "100.00004",
];

/// An object of about so many bytes.
pub(crate) fn object<D: Driver>(driver: &mut D, grammar: &Grammar, bytes_max: usize) -> Option<Vec<u8>> {
    let mut writing = Writing { driver, grammar, text: Vec::with_capacity(bytes_max + 64), bytes_max };
    let depth_max = if below(writing.driver, 4)? == 0 { 80 } else { 6 };
    writing.members(depth_max)?;
    Some(writing.text)
}

struct Writing<'d, D> {
    driver: &'d mut D,
    grammar: &'d Grammar,
    text: Vec<u8>,
    bytes_max: usize,
}

impl<D: Driver> Writing<'_, D> {
    fn value(&mut self, depth_max: usize) -> Option<()> {
        let leaf = depth_max == 0 || self.text.len() >= self.bytes_max;
        match below(self.driver, if leaf { 6 } else { 10 })? {
            0 => self.one(&["null", "true", "false"])?,
            1 | 2 => self.one(NUMBERS)?,
            3..=5 => self.string()?,
            6 | 7 => self.items(depth_max - 1)?,
            _ => self.members(depth_max - 1)?,
        }
        Some(())
    }

    fn one(&mut self, of: &[&str]) -> Option<()> {
        let word = one_of(self.driver, of)?;
        self.push(word);
        Some(())
    }

    fn members(&mut self, depth_max: usize) -> Option<()> {
        let count = self.count()?;
        self.push("{");
        // A name occurs once, because otherwise the object would be refused before the reader sees it.
        let first = below(self.driver, self.grammar.members.len())?;
        for number in 0..count {
            if number > 0 {
                self.push(",");
            }
            match self.grammar.members.get((first + number) % self.grammar.members.len().max(1)) {
                Some(name) if number < self.grammar.members.len() => {
                    self.push(&serde_json::Value::from(*name).to_string());
                }
                _ => self.push(&format!("\"m{number}\"")),
            }
            self.push(":");
            self.value(depth_max)?;
            if self.text.len() >= self.bytes_max {
                break;
            }
        }
        self.push("}");
        Some(())
    }

    /// Values of any kind, or one of them many times.
    fn items(&mut self, depth_max: usize) -> Option<()> {
        let count = self.count()?;
        let same = below(self.driver, 2)? == 0;
        self.push("[");
        let mut first: Option<Vec<u8>> = None;
        for number in 0..count {
            if number > 0 {
                self.push(",");
            }
            if let Some(first) = first.as_ref().filter(|_| same) {
                self.text.extend_from_slice(first);
            } else {
                let begin = self.text.len();
                self.value(depth_max)?;
                first = Some(self.text.get(begin..).unwrap_or_default().to_vec());
            }
            if self.text.len() >= self.bytes_max {
                break;
            }
        }
        self.push("]");
        Some(())
    }

    /// A word, several, or one again and again.
    fn string(&mut self) -> Option<()> {
        let mut text = String::new();
        let count = if below(self.driver, 3)? == 0 { self.count()? } else { 1 };
        let word = self.grammar.word(self.driver)?;
        let same = below(self.driver, 2)? == 0;
        for _ in 0..count {
            text.push_str(if same { word } else { self.grammar.word(self.driver)? });
            if text.len() + self.text.len() >= self.bytes_max {
                break;
            }
        }
        self.push(&serde_json::Value::from(text).to_string());
        Some(())
    }

    fn count(&mut self) -> Option<usize> {
        match below(self.driver, 12)? {
            0 => below(self.driver, self.bytes_max + 1),
            1 | 2 => below(self.driver, 40),
            _ => below(self.driver, 6),
        }
    }

    fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }
}
