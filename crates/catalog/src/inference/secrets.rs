//! Which read-only tools show secrets. They change nothing, but what they show gives access to other things.

use servanda_contract::tool::DataClassification;

use super::{
    evidence::{InferredBehaviour, ToolReach},
    spelling::words,
};
use crate::pins::Definition;

/// Things that are secrets.
const SECRETS: [&str; 12] = [
    "secret",
    "secrets",
    "credential",
    "credentials",
    "password",
    "passwords",
    "passphrase",
    "kubeconfig",
    "otp",
    "otps",
    "env",
    "envs",
];
/// Pairs of words that mean a secret.
const PAIRS: [(&str, &[&str]); 5] = [
    ("api access private signing secret service", &["key", "keys"]),
    ("api access refresh auth bearer", &["token", "tokens"]),
    ("environment env", &["variable", "variables", "var", "vars"]),
    ("connection", &["string", "strings"]),
    ("client", &["secret", "secrets"]),
];
/// Phrases of a tool that reports on secrets and shows none.
const HIDES: [&str; 6] = ["masked", "redacted", "without values", "names only", "not the values", "not return"];

/// The data classification of a tool's answers; adds a note with the reason if they may contain secrets.
pub(super) fn classification(
    definition: &Definition,
    reading: &InferredBehaviour,
    notes: &mut Vec<String>,
) -> DataClassification {
    let found = if reading.reach == ToolReach::ReadOnly { secret_word(definition) } else { None };
    let Some(word) = found else { return DataClassification::Internal };
    notes.push(format!("it reads secrets (`{word}`): its answers are classified as secret, so its calls are refused until a policy permits them"));
    DataClassification::Secret
}

fn secret_word(definition: &Definition) -> Option<String> {
    let told = definition.description.as_deref().unwrap_or_default();
    let first = told.split_inclusive(['.', '\n']).find(|sentence| !sentence.trim().is_empty()).unwrap_or_default();
    let lower = told.to_lowercase();
    if HIDES.iter().any(|hides| lower.contains(hides)) {
        return None;
    }
    let named = words(&definition.name);
    let said = words(first);
    let of = |text: &[String]| {
        let alone = text.iter().find(|word| SECRETS.contains(&word.as_str())).cloned();
        let pair = || {
            text.iter().zip(text.iter().skip(1)).find_map(|(one, other)| {
                let is = |(first, second): &(&str, &[&str])| {
                    first.split(' ').any(|word| word == one) && second.contains(&other.as_str())
                };
                PAIRS.iter().any(is).then(|| format!("{one} {other}"))
            })
        };
        alone.or_else(pair)
    };
    of(&named).or_else(|| of(&said))
}
