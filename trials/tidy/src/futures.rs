//! Where the code of a call is compiled: `engine`, `upstream` and `ledger` offer no `async fn` to other crates.
//!
//! An `async fn` is compiled by every crate that awaits it, as that crate is optimised, and so is a function that takes or returns an
//! `impl Future`. The binary is optimised for size. So these crates return boxed futures (`PortFuture`), and the code of a call is compiled once,
//! for speed. The rule reads the text only: it holds for everything that says `pub`, whether another crate can name it or not.

use std::path::{Path, PathBuf};

use crate::modules::tokens::{Token, end_of_group, tokens};

/// The crates that the rule holds for.
const CRATES: [&str; 3] = ["engine", "upstream", "ledger"];

const AT_START: &str = "when the gateway starts";
const AT_END: &str = "when the gateway ends";
const PAGES: &str = "for people: pages and commands";

/// Functions that are `async` nevertheless, each with its reason: none is a part of a call.
const ALLOWED: [(&str, &str, &str); 31] = [
    ("engine/src/approvals/deciding.rs", "decide", PAGES),
    ("engine/src/approvals/deciding.rs", "visible_ticket", PAGES),
    ("engine/src/approvals/grant_plan.rs", "plannable_tickets", PAGES),
    ("engine/src/approvals/grant_preview.rs", "preview_grant", PAGES),
    ("engine/src/approvals/grants.rs", "draft_grant", PAGES),
    ("engine/src/approvals/grants.rs", "grants", PAGES),
    ("engine/src/approvals/grants.rs", "make_grant", PAGES),
    ("engine/src/approvals/grants.rs", "revoke_grant", PAGES),
    ("engine/src/callbacks/delivery.rs", "deliveries", PAGES),
    ("engine/src/engine.rs", "drain", AT_END),
    ("engine/src/engine.rs", "recall_quarantine", AT_START),
    ("engine/src/engine.rs", "remember_world", AT_START),
    ("engine/src/engine.rs", "return_budget_units", AT_END),
    ("engine/src/long_running/note.rs", "load", PAGES),
    ("engine/src/oversight/budgets.rs", "budgets", PAGES),
    ("engine/src/oversight/effects.rs", "effect", PAGES),
    ("engine/src/oversight/effects.rs", "effects", PAGES),
    ("engine/src/oversight/settling.rs", "settle", PAGES),
    ("engine/src/oversight/settling.rs", "settle_by_hand", PAGES),
    ("engine/src/oversight/tools.rs", "change_hold", PAGES),
    ("engine/src/oversight/tools.rs", "tool", PAGES),
    ("engine/src/quarantine/by_person.rs", "change_by_person", PAGES),
    ("engine/src/quarantine/by_person.rs", "history_of", PAGES),
    ("engine/src/quarantine/mod.rs", "histories", PAGES),
    (
        "engine/src/quarantine/mod.rs",
        "record_event",
        "after a violation that probes saw, and for tests of other crates",
    ),
    ("engine/src/world/discovery.rs", "all_tried", AT_START),
    ("engine/src/world/names.rs", "recall", AT_START),
    ("ledger/src/lib.rs", "close", AT_END),
    ("ledger/src/lib.rs", "set_limits", AT_START),
    ("upstream/src/upstream.rs", "shutdown", AT_END),
    ("upstream/src/upstream.rs", "shutdown_by", AT_END),
];

#[test]
fn calls_await_no_async_fn_of_another_crate() {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    for folder in CRATES {
        for path in sources(&root.join(folder).join("src")) {
            let file = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
            let text = std::fs::read_to_string(&path).expect("a source file");
            let functions = compiled_by_callers(&tokens(&text));
            found.extend(functions.into_iter().map(|(line, name)| (file.clone(), line, name)));
        }
    }
    let is_allowed =
        |file: &str, name: &str| ALLOWED.iter().any(|(known, function, _)| *known == file && *function == name);
    let wrong = found.iter().filter(|(file, _, name)| !is_allowed(file, name));
    let wrong: Vec<String> = wrong.map(|(file, line, name)| format!("{file}:{line}: `{name}`")).collect();
    assert!(
        wrong.is_empty(),
        "these are compiled by each crate that awaits them:\n{}\nReturn a `PortFuture`, or say in this file why it is no part of a call.",
        wrong.join("\n")
    );
    let is_there = |known: &str, function: &str| found.iter().any(|(file, _, name)| file == known && name == function);
    let gone: Vec<_> = ALLOWED.iter().filter(|(file, name, _)| !is_there(file, name)).collect();
    assert!(gone.is_empty(), "these exceptions are not needed any more: {gone:?}");
}

/// Lines and names of the functions of a file that say `pub` and are compiled by their callers: those that are `async`, and those that take
/// or return an `impl Future`.
fn compiled_by_callers(tokens: &[Token]) -> Vec<(usize, String)> {
    let word = |position: usize| tokens.get(position).and_then(Token::word).unwrap_or_default();
    let mut found = Vec::new();
    for start in (0..tokens.len()).filter(|start| word(*start) == "pub") {
        let qualifiers = (start + 1..).take_while(|position| ["const", "async", "unsafe"].contains(&word(*position)));
        let function = start + 1 + qualifiers.clone().count();
        if word(function) != "fn" {
            continue;
        }
        let is_async = qualifiers.clone().any(|position| word(position) == "async");
        if is_async || has_future(&tokens[function..end_of_signature(tokens, function)]) {
            found.push((tokens[function].line, word(function + 1).to_owned()));
        }
    }
    found
}

/// The position at which a function's body begins, or its `;`.
fn end_of_signature(tokens: &[Token], function: usize) -> usize {
    let mut position = function;
    while let Some(token) = tokens.get(position) {
        if token.is('{') || token.is(';') {
            return position;
        }
        position = if token.is('(') || token.is('[') { end_of_group(tokens, position) } else { position + 1 };
    }
    tokens.len()
}

/// Whether a signature has an `impl Future`, with or without a path.
fn has_future(signature: &[Token]) -> bool {
    let mut is_impl = false;
    for token in signature {
        match token.word() {
            Some("impl") => is_impl = true,
            Some("Future") if is_impl => return true,
            Some("std" | "core" | "future" | "futures_util") => {}
            _ if token.kind == crate::modules::tokens::Kind::Separator => {}
            _ => is_impl = false,
        }
    }
    false
}

/// The product's source files of a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !name.ends_with("tests.rs")
                && !name.ends_with("testing.rs")
            {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 20, "the tidy test does not see the sources");
    found
}

#[test]
fn what_callers_compile_is_seen() {
    let source = "
        pub async fn one(&self) {}
        pub(crate) async fn inside(&self) {}
        async fn own() {}
        pub fn two(wait: impl Future<Output = ()> + Send) {}
        pub fn three() -> impl std::future::Future<Output = ()> {}
        pub const fn four(names: impl Iterator<Item = u8>) -> PortFuture<'_, ()> { async {} }
        pub
        async fn five<T>(of: T)
        where
            T: Send;
        // pub async fn six() {}
    ";
    let found = compiled_by_callers(&tokens(source));
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["one", "two", "three", "five"]);
}
