//! Source files: sizes, headers, words, and no unwrapping outside tests.

use std::path::Path;

/// Lines a file may have.
const FILE_LINES_MAX: usize = 500;
/// Lines a function may have.
const FUNCTION_LINES_MAX: usize = 70;

/// Functions that may be longer, each with its reason.
const LONG_FUNCTIONS: [(&str, &str); 0] = [];
/// Files that may be longer, each with its reason.
const LONG_FILES: [(&str, &str); 0] = [];

/// Words that say nothing.
const EMPTY_WORDS: [&str; 4] = ["Manager", "Helper", "Util", "Utils"];

#[test]
fn files_have_one_reason_to_exist() {
    let long: Vec<String> = sources()
        .into_iter()
        .filter(|source| source.lines.len() > FILE_LINES_MAX)
        .filter(|source| !LONG_FILES.iter().any(|(name, _)| source.name.ends_with(name)))
        .map(|source| format!("{}: {} lines", source.name, source.lines.len()))
        .collect();
    assert!(long.is_empty(), "over {FILE_LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn functions_fit_on_a_screen() {
    let mut long = Vec::new();
    for source in sources() {
        for (line, name, length) in functions(&source.lines) {
            let allowed = LONG_FUNCTIONS.iter().any(|(known, _)| *known == name);
            if length > FUNCTION_LINES_MAX && !allowed {
                long.push(format!("{}:{line}: `{name}` has {length} lines", source.name));
            }
        }
    }
    assert!(long.is_empty(), "over {FUNCTION_LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn nothing_unwraps_outside_tests() {
    let mut found = Vec::new();
    for source in sources().into_iter().filter(|source| !source.is_test) {
        for (number, line) in source.production().iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!("].iter().any(|word| code.contains(word))
            {
                found.push(format!("{}:{}: {}", source.name, number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|source| !source.is_test && !source.lines.first().is_some_and(|line| line.starts_with("//!")))
        .map(|source| source.name)
        .collect();
    assert!(silent.is_empty(), "no `//!` paragraph:\n{}", silent.join("\n"));
}

#[test]
fn names_are_words_of_the_domain() {
    let mut found = Vec::new();
    for source in sources() {
        for line in &source.lines {
            let declared = ["struct ", "enum ", "trait ", "mod "].iter().find_map(|keyword| {
                let (before, rest) = line.split_once(keyword)?;
                let code = before.trim().is_empty() || before.trim_start().starts_with("pub");
                code.then(|| rest.split(|character: char| !character.is_alphanumeric() && character != '_').next())?
            });
            if let Some(name) = declared
                && EMPTY_WORDS.iter().any(|word| name.to_lowercase().contains(&word.to_lowercase()))
            {
                found.push(format!("{}: `{name}`", source.name));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

struct Source {
    name: String,
    lines: Vec<String>,
    is_test: bool,
}

impl Source {
    /// The lines before the tests in the same file.
    fn production(&self) -> &[String] {
        let end = self.lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].ends_with('{'));
        &self.lines[..end.unwrap_or(self.lines.len())]
    }
}

/// Every Rust file of the workspace.
fn sources() -> Vec<Source> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut folders: Vec<_> =
        ["crates", "trials/tidy", "trials/model", "trials/fuzz", "trials/requirements", "trials/tool-identity"]
            .map(|folder| root.join(folder))
            .into();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                found.push(read(root, &entry));
            }
        }
    }
    assert!(found.len() > 20, "the tidy test does not see the sources");
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

fn read(root: &Path, path: &Path) -> Source {
    let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
    let text = std::fs::read_to_string(path).expect("a source file");
    let is_test = name.contains("/tests/")
        // Measurements that people run by hand.
        || name.contains("/examples/")
        || name.ends_with("tests.rs")
        || name.ends_with("testing.rs")
        || name.contains("trials/");
    Source { name, lines: text.lines().map(str::to_owned).collect(), is_test }
}

/// Line, name and length of every function; formatted code closes a function at its own indentation.
fn functions(lines: &[String]) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indentation));
        let ends_at_once = line.ends_with(';') || line.ends_with('}');
        let length = lines[start..].iter().position(|line| *line == close).filter(|_| !ends_at_once);
        if let Some(length) = length {
            found.push((start + 1, name, length + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let code = line.trim_start();
    let (before, after) = code.split_once("fn ")?;
    let plain = |word: &str| ["pub", "const", "async", "pub(crate)", "pub(super)"].contains(&word);
    before.split_whitespace().all(plain).then(|| after.split(['(', '<']).next().unwrap_or_default().to_owned())
}

#[test]
fn the_rules_themselves_catch_what_they_should() {
    let mut lines = vec!["fn long() {".to_owned()];
    lines.extend(std::iter::repeat_n("    step();".to_owned(), 80));
    lines.push("}".to_owned());
    assert_eq!(functions(&lines), [(1, "long".to_owned(), 82)]);
    let source = Source {
        name: "x".to_owned(),
        is_test: false,
        lines: vec!["a.unwrap()".into(), "#[cfg(test)]".into(), "mod tests {".into(), "b.unwrap()".into()],
    };
    assert_eq!(source.production(), ["a.unwrap()"]);
}
