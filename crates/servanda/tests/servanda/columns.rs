//! Tables on a terminal of 80 columns: no line is wider, and what people copy is in one piece.

use serde_json::json;

use crate::{
    contract::{changes, count_effects, get_invoice, pay_invoice, slow_change},
    world::World,
};

const COLUMNS: usize = 80;

/// Whether a word is there to be copied.
fn is_id(word: &&str) -> bool {
    ["eff_", "call_", "key:"].iter().any(|start| word.starts_with(start)) || word.contains("__")
}

#[test]
fn every_table_fits_80_columns_and_breaks_no_id() {
    let long = changes("trigger_long_running_operation_of_the_company");
    let world =
        World::company([get_invoice(), pay_invoice().confirmed(), count_effects(), slow_change(), long]).unpinned();
    world.run(&["pin", "--all"]);
    world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":6000}"#, "--timeout-ms", "1500"]).ended(4);
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
        let is_prose = |line: &&str| {
            let starts = ["hint: ", "note: ", "warning: ", "nobody knows", "there is no "];
            starts.iter().any(|start| line.starts_with(start))
        };
        let lines: Vec<&str> = shown.stderr.lines().filter(|line| !is_prose(line)).collect();
        assert!(lines.len() > 1, "{args:?} shows no table: {shown:?}");
        for line in &lines {
            assert!(line.chars().count() <= COLUMNS, "{args:?}: {} columns: {line}", line.chars().count());
        }
        // In a pipe a row is a line, so that what is copied there is whole.
        let piped = world.run(args).ended(0).stdout;
        let page = lines.join("\n");
        let words: Vec<&str> = page.split_whitespace().collect();
        // A list of calls cuts the names of tools at its column; `explain` and `--json` have them whole.
        let lists_calls = args == ["explain"] || args == ["calls"];
        let copied = |word: &&str| is_id(word) && !(lists_calls && word.contains("__"));
        let broken: Vec<&str> = piped.split_whitespace().filter(copied).filter(|id| !words.contains(id)).collect();
        assert!(broken.is_empty(), "{args:?}: {broken:?}:\n{page}");
    }
}
