//! Tables on a terminal of 80 columns: no line is wider, and ids and names stay in one piece.

use serde_json::json;

use crate::{
    contract::{changes, count_effects, get_invoice, pay_invoice, slow_change},
    snapshot::Page,
    world::{Ran, World},
};

const COLUMNS: usize = 80;

/// Whether a word is an id or a name that people copy.
fn is_id(word: &&str) -> bool {
    ["eff_", "call_", "key:"].iter().any(|start| word.starts_with(start)) || word.contains("__")
}

/// Sentences are wrapped between words, a command in backquotes is not, and a pipe gets whole lines.
#[test]
fn notes_and_hints_fit_80_columns() {
    let world = World::company([get_invoice()]);
    let folder = world.path("below/it");
    std::fs::create_dir_all(&folder).unwrap();
    let hint = "hint: there is one at ../../servanda.yaml: add `--config ../../servanda.yaml`, or change to ../..\n";
    for command in ["tools", "calls", "connect"] {
        let mut below = world.command(&[command]);
        below.current_dir(&folder);
        let told = crate::world::run(below, "").stderr;
        assert!(told.contains(hint), "{command}: {told}");
    }
    for args in
        [&["contract", "show", "company__get_invoic"][..], &["review", "company__get_invoic"], &["diff", "get_invoce"]]
    {
        let piped = world.run(args).ended(2).stderr;
        assert!(piped.contains("hint: did you mean `company__get_invoice`? `servanda tools` lists"), "{piped}");
        let shown = world.run_on_screen(args).ended(2).stderr;
        assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
        assert!(shown.contains("`servanda tools`"), "{shown}");
    }
}

/// `init` on a terminal: by class, with reasons for tools that a person should check, and what to do first.
#[test]
fn init_says_on_one_screen_what_a_person_looks_at() {
    let world = World::empty();
    let sample = json!({ "command": crate::world::BINARY, "args": ["sample"] });
    world.write(".mcp.json", &json!({ "mcpServers": { "company": sample } }).to_string());
    let shown = world.run_on_screen(&["init", "--yes"]).ended(0).stderr;
    assert!(shown.lines().all(|line| line.chars().count() <= COLUMNS), "{shown}");
    assert!(shown.contains("\nREAD_ONLY: ") && shown.contains("\n  company: "), "{shown}");
    let hints: Vec<&str> = shown.lines().filter(|line| line.starts_with("hint: ")).collect();
    assert!(hints[0].starts_with("hint: `servanda review` walks through the tools"), "{shown}");
    // The commands above contain the path of this build.
    let decided = shown.find("CRITICAL_MUTATION: ").map(|start| shown[start..].to_owned()).unwrap();
    let mut page = Page::new(&world);
    page.show("init --yes", &Ran { stderr: decided, stdout: String::new(), code: Some(0) });
    page.compare("init_on_a_screen");
}

#[test]
fn every_table_fits_80_columns_and_breaks_no_id() {
    let long = changes("trigger_long_running_operation_of_the_company");
    let world =
        World::company([get_invoice(), pay_invoice().confirmed(), count_effects(), slow_change(), long]).unpinned();
    world.run(&["pin", "--all"]);
    world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":6000}"#, "--timeout-ms", "4000"]).ended(4);
    world.run(&[
        "quarantine",
        "block",
        "company__count_effects",
        "--reason",
        "looked at until Monday, says the team of billing",
    ]);
    world.run_with_input(
        &["secret", "set", "A_SECRET_WITH_QUITE_A_LONG_NAME_FOR_THE_BILLING_SERVICE"],
        "a-secret-of-some-length\n",
    );
    for label in ["short", "a label that says at some length what the key is for and who asked for it"] {
        let key = ["keys", "create", "--tenant", "acme", "--principal", "ada@lindgren-roth.example", "--label", label];
        world.run(&[&key[..], &["--scope", "company:read", "--scope", "company:write"]].concat()).ended(0);
    }
    world.change_config(|config| {
        config["callbacks"] = json!([{ "name": "billing-department", "secret": "env://HOOK_SECRET",
            "url": "http://127.0.0.1:9/a/path/that/is/long/enough/to/be/broken/in/a/terminal" }]);
    });
    let tables: [&[&str]; 13] = [
        &["tools", "--offline"],
        &["pins", "--offline"],
        &["effects"],
        &["effects", "settle", "--all", "--as", "completed", "--evidence", "seen", "--dry-run"],
        &["budgets"],
        &["quarantine"],
        &["quarantine", "list"],
        &["keys"],
        &["secret"],
        &["explain"],
        &["calls"],
        &["connect"],
        &["callbacks"],
    ];
    for args in tables {
        let shown = world.run_on_screen(args);
        assert_eq!(shown.code, Some(0), "{args:?}: {shown:?}");
        let lines: Vec<&str> = shown.stderr.lines().collect();
        assert!(lines.len() > 1, "{args:?} shows no table: {shown:?}");
        for line in &lines {
            assert!(line.chars().count() <= COLUMNS, "{args:?}: {} columns: {line}", line.chars().count());
        }
        // In a pipe a row is a line, so that copied text is whole.
        let piped = world.run(args).ended(0).stdout;
        let page = lines.join("\n");
        let words: Vec<&str> = page.split_whitespace().collect();
        // Commands accept the beginning of an id; a name is whole.
        let is_shown = |id: &&str| {
            words.contains(id)
                || (!id.contains("__") && words.iter().any(|word| word.len() >= 16 && id.starts_with(word)))
        };
        let broken: Vec<&str> = piped.split_whitespace().filter(is_id).filter(|id| !is_shown(id)).collect();
        assert!(broken.is_empty(), "{args:?}: {broken:?}:\n{page}");
    }
}
