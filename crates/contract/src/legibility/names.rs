//! Names that can be mistaken for other names. The rules are those of Unicode's security mechanisms (UTS 39): a name is ASCII,
//! of one script, or of a combination that one language writes; and two names with the same skeleton look the same.

use std::{fmt, sync::LazyLock};

use unicode_security::{GeneralSecurityProfile as _, RestrictionLevel, RestrictionLevelDetection as _};

use super::{code_point, describe_hidden, hidden_characters};

/// The skeleton of every ASCII character.
static ASCII_SKELETONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let characters = (0..=0x7f_u8).map(|byte| char::from(byte).to_string());
    characters.map(|character| unicode_security::skeleton(&character).collect()).collect()
});

/// Why a name cannot be told from another name, or cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameFault {
    /// It has invisible characters.
    Hidden(String),
    /// It has a character that no language writes in a name.
    Unusual {
        /// The character.
        character: char,
    },
    /// It mixes scripts: `pаy` with a Cyrillic letter.
    MixedScripts {
        /// The characters that are not ASCII, at most five.
        characters: Vec<char>,
    },
}

impl NameFault {
    /// Whether the fault is invisible characters, which are a fault in any text.
    pub const fn is_hidden(&self) -> bool {
        matches!(self, Self::Hidden(_))
    }
}

/// What is wrong with a name; `None` if nothing is.
pub fn name_fault(name: &str) -> Option<NameFault> {
    if let Some(reason) = describe_hidden(&hidden_characters(name)) {
        return Some(NameFault::Hidden(reason));
    }
    if name.is_ascii() {
        return None;
    }
    // This check is not about which separators a name may have.
    let letters: String =
        name.chars().filter(|character| !character.is_ascii() || character.is_alphanumeric()).collect();
    if let Some(character) = letters.chars().find(|character| !character.identifier_allowed()) {
        return Some(NameFault::Unusual { character });
    }
    if letters.as_str().check_restriction_level(RestrictionLevel::HighlyRestrictive) {
        return None;
    }
    let characters = name.chars().filter(|character| !character.is_ascii()).take(5).collect();
    Some(NameFault::MixedScripts { characters })
}

/// What a name looks like: two names with the same skeleton can be mistaken for each other.
pub fn skeleton(name: &str) -> String {
    if !name.is_ascii() {
        return unicode_security::skeleton(name).collect();
    }
    // An ASCII character looks the same whatever stands beside it, and nearly all names are ASCII.
    name.bytes().filter_map(|byte| ASCII_SKELETONS.get(usize::from(byte))).map(String::as_str).collect()
}

impl fmt::Display for NameFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden(reason) => formatter.write_str(reason),
            Self::Unusual { character } => {
                write!(formatter, "has {}, which no language writes in a name", code_point(*character))
            }
            Self::MixedScripts { characters } => {
                let shown: Vec<String> = characters.iter().map(|character| code_point(*character)).collect();
                write!(formatter, "mixes scripts: {} among other letters", shown.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::skeleton;

    proptest! {
        #[test]
        fn the_skeleton_of_an_ascii_name_is_the_one_of_the_standard(name in "[\\x00-\\x7f]{0,40}") {
            prop_assert_eq!(skeleton(&name), unicode_security::skeleton(&name).collect::<String>());
        }
    }
}
