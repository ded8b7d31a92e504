use std::{collections::BTreeMap, path::Path};

use serde_json::json;
use servanda_contract::layers::ToolEntry;

use super::{append, change};

const FILE: &str = "\
# Ours.
server: github
tools:
  # The one that matters.
  merge_pull_request:
    class: HIGH_RISK_EXTERNAL
    # Nobody may take this out.
    doubts:
    - one
    - two
    why: it merges

  \"get/me\": # about oneself
    class: READ_ONLY
  short: {class: READ_ONLY}
# The end.
";

fn path() -> &'static Path {
    Path::new("contracts/github.yaml")
}

fn read_only() -> BTreeMap<String, ToolEntry> {
    let entry = serde_json::from_value(json!({ "class": "READ_ONLY", "why": "`get` in its name: really" })).unwrap();
    BTreeMap::from([("get_it".to_owned(), entry)])
}

#[test]
fn a_change_touches_nothing_else() {
    let changes = [
        ("doubts", None),
        ("class", Some(json!("CRITICAL_MUTATION"))),
        ("reviewed", Some(json!({ "by": "jane (uid 7)", "at": "2026-11-17" }))),
    ];
    let after = change(path(), FILE, "merge_pull_request", &changes).unwrap();
    let expected = FILE
        .replace("class: HIGH_RISK_EXTERNAL", "class: CRITICAL_MUTATION")
        .replace("    doubts:\n    - one\n    - two\n", "")
        .replace("it merges\n", "it merges\n    reviewed: {by: \"jane (uid 7)\", at: \"2026-11-17\"}\n");
    assert_eq!(after, expected);
}

#[test]
fn tools_are_added_at_the_end() {
    let after = append(path(), FILE, read_only()).unwrap();
    assert!(after.starts_with(FILE), "{after}");
    assert!(after.contains("\n  get_it:\n    class: READ_ONLY\n"), "{after}");
    let empty = append(path(), "server: github\ntools: {}\n", read_only()).unwrap();
    assert!(empty.contains("tools:\n  get_it:"), "{empty}");
}

#[test]
fn what_is_laid_out_otherwise_is_left_alone() {
    let cases = [
        ("short", FILE),
        ("a", "{server: s, tools: {a: {class: READ_ONLY}}}"),
        ("a", "tools:\n  a:\n    class: READ_ONLY\nserver: s\n"),
    ];
    for (number, (tool, text)) in cases.into_iter().enumerate() {
        let changed = change(path(), text, tool, &[("why", Some(json!("x")))]);
        assert_eq!(changed.is_ok(), number == 2, "{tool} {changed:?}");
    }
    assert!(append(path(), "tools:\n  a:\n    class: READ_ONLY\nserver: s\n", read_only()).is_err());
    assert!(change(path(), FILE, "gone", &[]).is_err());
}
