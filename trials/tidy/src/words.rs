//! One name for one thing: every type has its own name, and words that the glossary retired do not come back.
//!
//! The rules read code only, not its meaning: people decide in review whether a name is good.

use std::{collections::BTreeMap, path::Path};

use crate::modules::tokens::{Kind, Token, tokens};

/// Common names for a type that no other file sees. Several files may each have one.
const PRIVATE_IDIOMS: [&str; 7] = ["Args", "Entry", "Inner", "Line", "Raw", "Row", "State"];

/// Names that contain an old word for a reason: the file's path and the identifier.
const ALLOWED: [(&str, &str); 3] = [
    // The classifier and the sample know the words of tools.
    ("crates/identity/src/classifier/", ""),
    ("crates/sample/src/", ""),
    // Stored before the word was retired.
    ("crates/engine/src/deferred/upstream_tasks/note.rs", "guest_era"),
];

#[test]
fn a_type_name_means_one_thing() {
    let mut declared: BTreeMap<String, Vec<Declaration>> = BTreeMap::new();
    for (file, text) in product_sources() {
        for declaration in declarations(&file, &tokens(&text)) {
            declared.entry(declaration.name.clone()).or_default().push(declaration);
        }
    }
    assert!(declared.len() > 1_000, "the tidy test does not see the types");
    let wrong: Vec<String> = declared.iter().filter_map(|(name, places)| repeated(name, places)).collect();
    let advice = "Give each its own name, with its domain in front; docs/glossary.md has the words that are taken.";
    assert!(wrong.is_empty(), "types of one name:\n{}\n{advice}", wrong.join("\n"));
}

#[test]
fn retired_words_are_not_used() {
    let retired = retired_words(&read("docs/glossary.md"));
    assert!(retired.len() > 10, "the glossary has no list of retired words");
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        for token in tokens(&text) {
            let Some(name) = token.word() else { continue };
            let is_allowed =
                |(folder, known): &(&str, &str)| file.starts_with(folder) && (known.is_empty() || *known == name);
            if ALLOWED.iter().any(is_allowed) {
                continue;
            }
            for part in parts(name) {
                if let Some(instead) = retired.get(singular(&part)) {
                    wrong.push(format!("{file}:{}: `{name}`: the word is {instead}", token.line));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "words that docs/glossary.md retired:\n{}", wrong.join("\n"));
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Declaration {
    name: String,
    place: String,
    is_private: bool,
}

/// The complaint about a name of several types, if that is not allowed.
fn repeated(name: &str, declared: &[Declaration]) -> Option<String> {
    let is_idiom = PRIVATE_IDIOMS.contains(&name) && declared.iter().all(|one| one.is_private);
    let places: Vec<&str> = declared.iter().map(|one| one.place.as_str()).collect();
    (declared.len() > 1 && !is_idiom).then(|| format!("`{name}`: {}", places.join(", ")))
}

/// The types that a file declares, outside its tests. Aliases count at module level; those in traits do not.
fn declarations(file: &str, tokens: &[Token]) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for (position, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('{') => depth += 1,
            Kind::Sign('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if begins_tests(tokens, position) {
            break;
        }
        let before = position.checked_sub(1).and_then(|before| tokens.get(before));
        let is_type = match token.word() {
            Some("struct" | "enum" | "trait" | "union") => true,
            Some("type") => depth == 0,
            _ => false,
        };
        let name = tokens.get(position + 1).and_then(Token::word).filter(|name| name.starts_with(char::is_uppercase));
        if let (true, Some(name)) = (is_type, name) {
            let is_private = !before.is_some_and(|before| before.word() == Some("pub") || before.is(')'));
            found.push(Declaration { name: name.to_owned(), place: format!("{file}:{}", token.line), is_private });
        }
    }
    found
}

/// Whether `#[cfg(test)] mod name {` begins here.
fn begins_tests(tokens: &[Token], position: usize) -> bool {
    let words: Vec<&str> = tokens[position..].iter().take(9).filter_map(Token::word).collect();
    tokens[position].is('#')
        && words.starts_with(&["cfg", "test", "mod"])
        && tokens.get(position + 9).is_some_and(|token| token.is('{'))
}

/// The parts of an identifier in lower case: `GuestEra`, `guest_era` and `GUEST_ERA` are `guest` and `era`.
fn parts(name: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut before_is_lower = false;
    for character in name.chars() {
        let begins = character == '_' || (character.is_uppercase() && before_is_lower);
        if begins {
            found.push(String::new());
        }
        if character != '_'
            && let Some(last) = found.last_mut()
        {
            last.extend(character.to_lowercase());
        }
        before_is_lower = character.is_lowercase();
    }
    found
}

fn singular(part: &str) -> &str {
    part.strip_suffix('s').unwrap_or(part)
}

/// The table under "Retired words": the word and its replacement.
fn retired_words(glossary: &str) -> BTreeMap<String, String> {
    let (_, table) = glossary.split_once("## Retired words").unwrap_or_default();
    let rows = table.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    });
    rows.filter(|(word, _)| word.chars().all(|character| character.is_ascii_lowercase()) && word != "word").collect()
}

fn product_sources() -> Vec<(String, String)> {
    let is_test = |file: &str| {
        file.contains("/tests/")
            || file.contains("/examples/")
            || file.ends_with("tests.rs")
            || file.ends_with("testing.rs")
    };
    sources().into_iter().filter(|(file, _)| file.contains("/src/") && !is_test(file)).collect()
}

/// Every Rust file of the crates, with its path from the root.
fn sources() -> Vec<(String, String)> {
    let root = root();
    let mut folders = vec![root.join("crates")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                let name = entry.strip_prefix(&root).unwrap_or(&entry).display().to_string();
                found.push((name, std::fs::read_to_string(&entry).expect("a source file")));
            }
        }
    }
    found.sort();
    found
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).expect("a file of the repository")
}

fn root() -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

#[test]
fn the_rules_themselves_catch_what_they_should() {
    let declared = |text: &str| declarations("x.rs", &tokens(text));
    let found = declared(
        "pub struct Held;\nenum Row {}\nimpl A for B { type Held = u8; }\n// struct Never\n#[cfg(test)]\nmod tests { struct Fake; }",
    );
    let names: Vec<(&str, bool)> = found.iter().map(|one| (one.name.as_str(), one.is_private)).collect();
    assert_eq!(names, [("Held", false), ("Row", true)]);
    let twice = |text: &str| {
        let found = [declared(text), declared(text)].concat();
        repeated(&found[0].name, &found)
    };
    assert_eq!(twice("struct Held;").as_deref(), Some("`Held`: x.rs:1, x.rs:1"));
    assert!(twice("pub struct Row;").is_some() && twice("struct Row;").is_none());
    assert_eq!(parts("GuestEra_MAX"), ["guest", "era", "max"]);
    let retired =
        retired_words("| guest | here |\n## Retired words\n| word | instead |\n|---|---|\n| guest | requester |\n");
    assert_eq!(retired.get("guest").map(String::as_str), Some("requester"));
}
