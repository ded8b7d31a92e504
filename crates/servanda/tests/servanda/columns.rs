//! Tables on a terminal of 80 columns: no line is wider, and what people copy is in one piece.

use serde_json::{Value, json};

use crate::{
    contract::{changes, count_effects, get_invoice, pay_invoice, slow_change},
    world::World,
};

const COLUMNS: usize = 80;

/// Every id, handle and name in a document.
fn ids(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text)
                        if ["id", "call_id", "effect_id", "name", "tool", "credential"].contains(&name.as_str()) =>
                    {
                        found.push(text.to_owned());
                    }
                    _ => ids(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| ids(item, found)),
        _ => {}
    }
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
        "add",
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
    let tables: [&[&str]; 12] = [
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
        &["connect"],
        &["callbacks"],
    ];
    for args in tables {
        let shown = world.run_on_screen(args);
        assert_eq!(shown.code, Some(0), "{args:?}: {shown:?}");
        let lines: Vec<&str> = shown.stderr.lines().take_while(|line| !line.starts_with("hint:")).collect();
        assert!(lines.len() > 1, "{args:?} shows no table: {shown:?}");
        for line in &lines {
            let prose = ["note: ", "warning: ", "nobody knows"].iter().any(|start| line.starts_with(start));
            assert!(prose || line.chars().count() <= COLUMNS, "{args:?}: {} columns: {line}", line.chars().count());
        }
        if args[0] == "explain" || args[0] == "connect" {
            // Its ids may be beginnings that tell calls apart; clients have words for names.
            continue;
        }
        let mut whole = Vec::new();
        ids(&world.run(&[args, &["--json"]].concat()).ended(0).json(), &mut whole);
        assert!(!whole.is_empty(), "{args:?}");
        let page = lines.join("\n");
        let missing: Vec<&String> = whole.iter().filter(|id| !page.contains(id.as_str())).collect();
        let is_id =
            |id: &&&String| ["eff_", "call_", "key:"].iter().any(|start| id.starts_with(start)) || id.contains("__");
        assert!(missing.iter().find(is_id).is_none(), "{args:?}: {missing:?} is broken or missing:\n{page}");
    }
}
