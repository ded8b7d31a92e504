//! Which characters are invisible. Two tables: characters that are never visible, and the pictographs around which joiners and
//! selectors have a visible meaning. Both follow Unicode's stable properties (`Default_Ignorable_Code_Point`, `Emoji`), so they
//! need no update with every Unicode version.

use std::fmt;

use unicode_script::{Script, UnicodeScript as _};

use super::code_point;

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
const TEXT_STYLE: char = '\u{fe0e}';
const EMOJI_STYLE: char = '\u{fe0f}';
const KEYCAP: char = '\u{20e3}';

/// An invisible character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenCharacter {
    /// The character.
    pub character: char,
    /// The number of characters before it.
    pub position: usize,
    kind: &'static str,
}

/// Invisible characters, by first and last code point, sorted. Joiners and selectors are included; they are excused around
/// pictographs.
const NEVER_SHOW: [(u32, u32, &str); 37] = [
    (0x0000, 0x0008, "a control character"),
    (0x000B, 0x001A, "a control character"),
    (0x001B, 0x001B, "escape, which begins a terminal command"),
    (0x001C, 0x001F, "a control character"),
    (0x007F, 0x009A, "a control character"),
    (0x009B, 0x009B, "a terminal command"),
    (0x009C, 0x009F, "a control character"),
    (0x00AD, 0x00AD, "a soft hyphen"),
    (0x034F, 0x034F, "an invisible joiner"),
    (0x061C, 0x061C, "a direction mark"),
    (0x115F, 0x1160, "a filler"),
    (0x17B4, 0x17B5, "an invisible vowel"),
    (0x180B, 0x180F, "a variation selector"),
    (0x200B, 0x200D, "zero width"),
    (0x200E, 0x200F, "a direction mark"),
    (0x2028, 0x2029, "a separator that most programs do not treat as a line break"),
    (0x202A, 0x202E, "a direction override"),
    (0x2060, 0x2060, "zero width"),
    (0x2061, 0x2064, "an invisible operator"),
    (0x2065, 0x2065, "invisible"),
    (0x2066, 0x2069, "a direction override"),
    (0x206A, 0x206F, "an invisible format character"),
    (0x3164, 0x3164, "a filler"),
    (0xE000, 0xF8FF, "private use, which means what two parties agreed on"),
    (0xFDD0, 0xFDEF, "no character"),
    (0xFE00, 0xFE0F, "a variation selector"),
    (0xFEFF, 0xFEFF, "zero width"),
    (0xFFA0, 0xFFA0, "a filler"),
    (0xFFF0, 0xFFF8, "invisible"),
    (0xFFF9, 0xFFFB, "an annotation mark"),
    (0xFFFE, 0xFFFF, "no character"),
    (0x1_3430, 0x1_343F, "an invisible format character"),
    (0x1_BCA0, 0x1_BCA3, "an invisible format character"),
    (0x1_D173, 0x1_D17A, "an invisible format character"),
    (0xE_0000, 0xE_007F, "a tag character, which can spell out hidden text"),
    (0xE_0080, 0xE_0FFF, "a supplementary selector, which can spell out hidden text"),
    (0xF_0000, 0x10_FFFF, "private use, which means what two parties agreed on"),
];

/// Characters that a style selector may follow and a joiner may join, by first and last code point, sorted.
const PICTOGRAPHS: [(u32, u32); 17] = [
    (0x00A9, 0x00A9),
    (0x00AE, 0x00AE),
    (0x203C, 0x203C),
    (0x2049, 0x2049),
    (0x2122, 0x2122),
    (0x2139, 0x2139),
    (0x2190, 0x21FF),
    (0x2300, 0x23FF),
    (0x24C2, 0x24C2),
    (0x25A0, 0x27BF),
    (0x2900, 0x297F),
    (0x2B00, 0x2BFF),
    (0x3030, 0x3030),
    (0x303D, 0x303D),
    (0x3297, 0x3297),
    (0x3299, 0x3299),
    (0x1_F000, 0x1_FAFF),
];

/// Scripts whose spelling needs joiners between letters.
const JOINING: [Script; 16] = [
    Script::Arabic,
    Script::Bengali,
    Script::Devanagari,
    Script::Gujarati,
    Script::Gurmukhi,
    Script::Kannada,
    Script::Khmer,
    Script::Malayalam,
    Script::Mongolian,
    Script::Myanmar,
    Script::Nko,
    Script::Oriya,
    Script::Sinhala,
    Script::Syriac,
    Script::Tamil,
    Script::Telugu,
];

/// The invisible characters of a text, in order.
pub(super) fn find(text: &str) -> impl Iterator<Item = HiddenCharacter> + '_ {
    let mut before: [Option<char>; 2] = [None, None];
    let mut rest = text.chars();
    let mut position = 0;
    std::iter::from_fn(move || {
        loop {
            let character = rest.next()?;
            let neighbours =
                AdjacentCharacters { second_before: before[0], before: before[1], after: rest.clone().next() };
            before = [before[1], Some(character)];
            position += 1;
            if let Some(kind) = kind(character)
                && !neighbours.excuse(character)
            {
                return Some(HiddenCharacter { character, position: position - 1, kind });
            }
        }
    })
}

fn kind(character: char) -> Option<&'static str> {
    // The fast path for nearly all text.
    if matches!(character, ' '..='~' | '\n' | '\t') {
        return None;
    }
    let code = u32::from(character);
    // The last two code points of every plane are not characters.
    if code & 0xFFFE == 0xFFFE {
        return Some("no character");
    }
    let after = NEVER_SHOW.partition_point(|(first, ..)| *first <= code);
    let (_, last, kind) = NEVER_SHOW.get(after.checked_sub(1)?)?;
    (code <= *last).then_some(*kind)
}

/// The neighbours of a character.
#[derive(Clone, Copy)]
struct AdjacentCharacters {
    second_before: Option<char>,
    before: Option<char>,
    after: Option<char>,
}

impl AdjacentCharacters {
    /// Whether an invisible character has a visible meaning between these neighbours.
    fn excuse(self, character: char) -> bool {
        match character {
            // Windows line ends.
            '\r' => self.after == Some('\n'),
            TEXT_STYLE => self.before.is_some_and(is_pictograph),
            EMOJI_STYLE => self.before.is_some_and(is_pictograph) || self.is_keycap(),
            ZERO_WIDTH_JOINER => self.joins_pictographs() || self.joins_letters(),
            ZERO_WIDTH_NON_JOINER => self.joins_letters(),
            _ => false,
        }
    }

    fn is_keycap(self) -> bool {
        self.before.is_some_and(|before| matches!(before, '0'..='9' | '#' | '*')) && self.after == Some(KEYCAP)
    }

    fn joins_pictographs(self) -> bool {
        let drawn = if self.before == Some(EMOJI_STYLE) { self.second_before } else { self.before };
        drawn.is_some_and(is_pictograph) && self.after.is_some_and(is_pictograph)
    }

    fn joins_letters(self) -> bool {
        let (Some(before), Some(after)) = (self.before, self.after) else { return false };
        before.script() == after.script() && JOINING.contains(&before.script())
    }
}

fn is_pictograph(character: char) -> bool {
    let code = u32::from(character);
    let after = PICTOGRAPHS.partition_point(|(first, _)| *first <= code);
    after.checked_sub(1).and_then(|at| PICTOGRAPHS.get(at)).is_some_and(|(_, last)| code <= *last)
}

impl fmt::Display for HiddenCharacter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({}) as character {}", code_point(self.character), self.kind, self.position + 1)
    }
}
