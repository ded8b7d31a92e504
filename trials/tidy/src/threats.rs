//! The table of threats in `docs/approvals.md`: every file and every test that it names exists.

/// The threats that approvals answer.
const THREATS: [&str; 12] = ["T1", "T2", "T3", "T4", "T5", "T6", "T22", "T30", "T31", "T32", "T33", "T34"];

#[test]
fn every_threat_has_a_test_that_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/approvals.md")).expect("docs/approvals.md");
    let section = text.split("## Threats and their tests").nth(1).and_then(|rest| rest.split("\n## ").next());
    let section = section.expect("the section about threats");
    let mut named = Vec::new();
    for row in section.lines().filter(|line| line.starts_with("| T")) {
        let threat = row.split('|').nth(1).unwrap_or_default().trim();
        let found = tests_in(row);
        assert!(!found.is_empty(), "{threat} names no test");
        named.push(threat.to_owned());
        check(&root, threat, &found);
    }
    assert_eq!(named, THREATS);
    let prose: String = section.lines().filter(|line| !line.starts_with('|')).collect::<Vec<_>>().join("\n");
    check(&root, "the prose", &tests_in(&prose));
}

/// The files in a text, each with the tests that are named after it.
fn tests_in(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for word in text.split('`').skip(1).step_by(2) {
        let is_file = [".rs", ".py", ".mjs"].iter().any(|end| word.ends_with(end));
        match found.last_mut() {
            _ if is_file => found.push((word.to_owned(), Vec::new())),
            Some((_, tests)) => tests.push(word.to_owned()),
            None => {}
        }
    }
    found
}

fn check(root: &std::path::Path, threat: &str, found: &[(String, Vec<String>)]) {
    for (file, tests) in found {
        let code = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{threat}: {file}: {error}"));
        for test in tests {
            assert!(code.contains(test.as_str()), "{threat}: {file} has no `{test}`");
        }
    }
}
