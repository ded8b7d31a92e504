//! The bounds of a grant: what each argument of a later call may be, as the arguments of the approved call imply it. A person may make a
//! bound narrower before it holds, never wider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    LeafFault,
    grant_leaves::{ArgumentLeaf, argument_leaves, is_plain_folder, read_amount, write_amount},
};

/// Words in the name of an argument that say that its number is a name and not an amount.
const NAMING_WORDS: [&str; 30] = [
    "id",
    "ids",
    "uid",
    "gid",
    "pid",
    "no",
    "nr",
    "number",
    "code",
    "key",
    "ref",
    "reference",
    "account",
    "customer",
    "user",
    "invoice",
    "order",
    "port",
    "index",
    "row",
    "line",
    "page",
    "position",
    "version",
    "revision",
    "year",
    "month",
    "day",
    "status",
    "mode",
];
/// Words in the name of an argument that say that its text is a path.
const PATH_WORDS: [&str; 9] = ["path", "paths", "file", "files", "filename", "filepath", "dir", "directory", "folder"];

/// What one argument may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentBound {
    /// Where the argument stands: a JSON Pointer.
    pub pointer: String,
    /// What it may be.
    pub rule: BoundRule,
}

/// What a value may be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundRule {
    /// This value.
    Equal(Value),
    /// A number from zero to this one, as a decimal: `12.5`. Of a negative number, from this one to zero.
    AtMost(String),
    /// A path below this folder, which ends with a slash.
    Below(String),
    /// A URL with this scheme, host and port: `https://api.example:443`.
    Origin(String),
}

/// Why a bound is not one that a person may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BoundFault {
    /// It does not say what it should.
    #[error("a bound is a number, a folder that ends with a slash, or exactly what was approved")]
    Unreadable,
    /// It admits more than the approved call implies.
    #[error("a bound may be narrower than proposed, and never wider")]
    Wider,
}

/// The bounds that the arguments of an approved call imply, one for each value.
pub fn proposed_bounds(arguments: &[u8]) -> Result<Vec<ArgumentBound>, LeafFault> {
    let leaves = argument_leaves(arguments)?;
    Ok(leaves.into_iter().map(ArgumentBound::implied_by).collect())
}

impl ArgumentBound {
    fn implied_by(leaf: ArgumentLeaf) -> Self {
        let names = |known: &[&str]| words(leaf.name()).iter().any(|word| known.contains(&word.as_str()));
        let rule = if let Some(origin) = &leaf.origin {
            BoundRule::Origin(origin.clone())
        } else if let Some(amount) = leaf.amount.filter(|_| !names(&NAMING_WORDS)) {
            BoundRule::AtMost(write_amount(amount))
        } else if let Some(folder) = leaf.path.as_deref().filter(|_| names(&PATH_WORDS)).and_then(folder_of) {
            BoundRule::Below(folder.to_owned())
        } else {
            BoundRule::Equal(leaf.value)
        };
        Self { pointer: leaf.pointer, rule }
    }

    /// The bound that a person wants instead of this one: a smaller number, a folder further below, or exactly the approved value.
    pub fn narrowed(&self, wanted: NarrowedBound<'_>) -> Result<Self, BoundFault> {
        let rule = match (wanted, &self.rule) {
            (NarrowedBound::AsProposed, rule) => rule.clone(),
            (NarrowedBound::Exactly(value), _) => BoundRule::Equal(value.clone()),
            (NarrowedBound::Text(text), BoundRule::AtMost(most)) => {
                let (wanted, most) = (read_amount(text.trim()), read_amount(most));
                let (wanted, most) = wanted.zip(most).ok_or(BoundFault::Unreadable)?;
                let is_within = if most < 0 { (most..=0).contains(&wanted) } else { (0..=most).contains(&wanted) };
                if !is_within {
                    return Err(BoundFault::Wider);
                }
                BoundRule::AtMost(write_amount(wanted))
            }
            (NarrowedBound::Text(text), BoundRule::Below(folder)) => {
                if !is_plain_folder(text) {
                    return Err(BoundFault::Unreadable);
                }
                if !text.starts_with(folder.as_str()) {
                    return Err(BoundFault::Wider);
                }
                BoundRule::Below(text.to_owned())
            }
            (NarrowedBound::Text(_), BoundRule::Equal(_) | BoundRule::Origin(_)) => return Err(BoundFault::Unreadable),
        };
        Ok(Self { pointer: self.pointer.clone(), rule })
    }

    /// The bound in words, after the argument's name.
    pub fn describe(&self) -> String {
        match &self.rule {
            BoundRule::Equal(value) => format!("exactly {value}"),
            BoundRule::AtMost(most) if most.starts_with('-') => format!("a number from {most} to 0"),
            BoundRule::AtMost(most) => format!("a number from 0 to {most}"),
            BoundRule::Below(folder) => format!("a path below {folder}"),
            BoundRule::Origin(origin) => format!("a URL at {origin}"),
        }
    }
}

/// What a person wants a bound to be.
#[derive(Debug, Clone, Copy)]
pub enum NarrowedBound<'a> {
    /// As proposed.
    AsProposed,
    /// Exactly the approved value.
    Exactly(&'a Value),
    /// A smaller number, or a folder further below.
    Text(&'a str),
}

/// The folder of a path, with the slash; none if that is the root or there is none.
fn folder_of(path: &str) -> Option<&str> {
    let folder = path.get(..=path.rfind('/')?)?;
    is_plain_folder(folder).then_some(folder)
}

/// The words of a name, in lower case: `amountCents` and `amount-cents` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && was_lower;
        if begins || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
        was_lower = character.is_lowercase() || character.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}
