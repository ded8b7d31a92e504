//! The class of a program in a call's arguments: milder than the worst only if that is proved. It proves little
//! on purpose: one statement that reads, or one that adds or changes rows and nothing else. Everything else has
//! the contract's class.

use servanda_contract::tool::SideEffectClass;
use servanda_identity::effects::{self, ProgramEffect, ProgramLanguage};

/// Words that a statement which only adds or changes rows may not contain: they remove, replace, change tables
/// and rights, or run more. They are searched in the whole text, so a literal that contains one makes a
/// statement graver, never milder.
const GRAVER: [&str; 19] = [
    "DELETE", "DROP", "TRUNCATE", "ALTER", "GRANT", "REVOKE", "MERGE", "REPLACE", "EXECUTE", "EXEC", "CALL", "COPY",
    "ATTACH", "PRAGMA", "CREATE", "VACUUM", "LOAD", "OUTFILE", "SET",
];

/// The class that is proved for a text; none if it may be the worst.
pub(super) fn proved_class(language: ProgramLanguage, text: &str) -> Option<SideEffectClass> {
    let verdict = effects::classify(language, text);
    let kind = verdict.statement.as_ref().map(|statement| statement.kind.to_ascii_uppercase());
    match (verdict.effect, language) {
        (ProgramEffect::Read, _) => Some(SideEffectClass::ReadOnly),
        (ProgramEffect::Write, ProgramLanguage::Sql(_)) => {
            let words = words(text);
            let has = |word: &str| words.iter().any(|one| one == word);
            // `SET` belongs to an update, and to an insert that updates existing rows.
            let is_graver = |word: &&str| has(word) && !(*word == "SET" && has("UPDATE"));
            let one_statement = !text.trim_end().trim_end_matches(';').contains(';');
            let adds = kind.as_deref() == Some("INSERT");
            let changes_some = kind.as_deref() == Some("UPDATE") && has("WHERE");
            let plain = one_statement && !GRAVER.iter().any(is_graver);
            (plain && (adds || changes_some)).then_some(SideEffectClass::MediumRiskWrite)
        }
        _ => None,
    }
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !(character.is_alphanumeric() || character == '_'));
    words.filter(|word| !word.is_empty()).map(str::to_ascii_uppercase).collect()
}
