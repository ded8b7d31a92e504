//! `--json` works everywhere: every command writes only JSON to stdout. The commands are read from the help, so that a new command fails
//! here until the test says how to run it.

use std::{collections::BTreeSet, io::Read as _};

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, get_invoice, pay_invoice},
    world::{Ran, World},
};

/// Commands whose stdout belongs to a protocol, or that have their own test.
const ELSEWHERE: [&str; 3] = [
    // MCP over stdin and stdout, which is JSON anyway.
    "stdio", // Runs until it is stopped: `serve_says_as_json_that_it_is_ready`.
    "serve", // Waits for a browser: `logins`.
    "login",
];

/// How each command is run: its arguments and exit code. They run one after the other in one folder.
const TRIED: [(&str, &[&str], i32); 63] = [
    ("check", &[], 0),
    ("tools", &["--offline"], 0),
    ("pins", &["--offline"], 0),
    ("pin", &["--all", "--yes"], 0),
    ("diff", &[], 0),
    ("call", &["company__get_invoice", r#"{"invoice_id":"inv_1001"}"#], 0),
    ("call", &["company__get_invoice", r#"{"invoice_id":1}"#], 3),
    ("call", &["company__pay_invoice", r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#], 0),
    ("calls", &[], 0),
    ("contract show", &["company__get_invoice"], 0),
    ("review", &[], 0),
    ("explain", &[], 0),
    ("explain", &["--last"], 0),
    ("effects", &[], 0),
    ("effects show", &["eff_"], 0),
    ("effects settle", &["--all", "--as", "completed", "--evidence", "seen", "--yes"], 0),
    ("ledger", &[], 0),
    ("ledger status", &[], 0),
    ("ledger verify", &[], 0),
    ("ledger backup", &["copy.db"], 0),
    ("ledger restore", &["copy.db", "--evidence", "a test"], 0),
    ("ledger adopt", &["--evidence", "a test"], 0),
    ("ledger settle-lost", &["--evidence", "a test"], 0),
    ("migrate", &[], 0),
    ("migrate", &["--dry-run"], 0),
    ("budgets", &[], 0),
    ("quarantine", &[], 0),
    ("quarantine list", &[], 0),
    ("quarantine block", &["company__get_invoice", "--reason", "a test"], 0),
    ("quarantine release", &["company__get_invoice", "--reason", "a test"], 0),
    ("policy schema", &[], 0),
    ("policy test", &["cases.yaml"], 0),
    ("policy explain", &["CALL"], 0),
    ("audit", &[], 0),
    ("audit status", &[], 0),
    ("audit key", &[], 0),
    ("audit copy", &["copied-log"], 0),
    ("audit prove", &["CALL"], 0),
    ("audit export", &[], 0),
    ("audit search", &["--caller", "local"], 0),
    ("policy what-if", &["--policies", "policies", "--since", "1d"], 0),
    ("identity show", &["company__get_invoice"], 0),
    ("identity confusions", &[], 0),
    ("identity effects", &["statements.jsonl"], 0),
    ("identity classify", &["tools.jsonl"], 0),
    ("approvals", &[], 0),
    ("approvals list", &["--state", "all"], 0),
    ("approvals key", &[], 0),
    ("grants", &[], 0),
    ("grants list", &[], 0),
    ("keys", &[], 0),
    ("keys list", &[], 0),
    ("keys create", &["--tenant", "acme", "--principal", "ada", "--label", "a test", "--scope", "a"], 0),
    ("keys rotate", &[], 0),
    ("passkeys", &[], 0),
    ("passkeys list", &[], 0),
    ("revoke", &["KEY"], 0),
    ("keys revoke", &["KEY"], 0),
    ("delegate", &["--agent", "a", "--tenant", "acme", "--principal", "ada", "--scope", "a"], 0),
    ("doctor", &[], 0),
    ("schema", &["config"], 0),
    ("demo", &["--once"], 0),
    ("remove", &["company", "--yes"], 0),
];

/// The subcommands of a command, as its help lists them.
fn below(world: &World, path: &[&str]) -> Vec<String> {
    let help = world.run(&[path, &["--help"]].concat()).ended(0).stdout;
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let listed = rest.lines().take_while(|line| line.starts_with("  "));
    let names = listed.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command and subcommand.
fn all(world: &World) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for command in below(world, &[]) {
        for inner in below(world, &[&command]) {
            found.insert(format!("{command} {inner}"));
        }
        found.insert(command);
    }
    found
}

/// All of stdout is JSON: one document, or one per line.
#[track_caller]
fn assert_json(what: &str, ran: &Ran) {
    let values = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>();
    let values: Result<Vec<Value>, _> = values.collect();
    let values = values.unwrap_or_else(|error| panic!("{what}: stdout is not JSON ({error}): {ran:?}"));
    assert!(!values.is_empty(), "{what} says nothing on stdout: {ran:?}");
}

fn world() -> World {
    let world = World::company([get_invoice(), pay_invoice(), count_effects()]);
    world.write("statements.jsonl", "{\"sql\":\"SELECT 1\",\"dialect\":\"sqlite\"}\n");
    world.write("tools.jsonl", "{\"name\":\"get_x\",\"inputSchema\":{\"type\":\"object\"}}\n");
    world.write("policies/p.cedar", "@id(\"all\")\npermit (principal, action, resource);\n");
    world.write(
        "cases.yaml",
        "cases:\n  - {name: a read, tool: company.get_invoice, args: {invoice_id: inv_1001}, expect: allow}\n",
    );
    world
}

#[test]
fn every_command_answers_with_json() {
    let world = world();
    let known = all(&world);
    assert!(known.len() > 40, "the help was not read: {known:?}");
    // A command that only has subcommands does nothing by itself.
    let needs_one = |command: &str| ["contract", "identity", "policy", "secret"].contains(&command);
    let tried: BTreeSet<&str> =
        TRIED.iter().map(|(command, ..)| *command).chain(ELSEWHERE).chain(TRIED_APART).collect();
    let missing: Vec<&String> =
        known.iter().filter(|command| !tried.contains(command.as_str()) && !needs_one(command)).collect();
    assert!(missing.is_empty(), "say how `--json` is tried of {missing:?}");
    let mut ids = (String::new(), String::new());
    for (command, more, code) in TRIED {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--json");
        let more = more.iter().map(|given| match *given {
            "CALL" => ids.0.as_str(),
            "KEY" => ids.1.as_str(),
            given => given,
        });
        args.extend(more);
        let ran = world.run(&args);
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
        assert_json(command, &ran);
        match command {
            "explain" if ids.0.is_empty() => ids.0 = ran.json()[0]["call_id"].as_str().unwrap().to_owned(),
            "keys create" => ids.1 = ran.json()["id"].as_str().unwrap().to_owned(),
            _ => {}
        }
    }
}

/// Run by the tests below, because they need a setup of their own.
const TRIED_APART: [&str; 24] = [
    "audit verify",
    "init",
    "connect",
    "disconnect",
    "secret set",
    "secret list",
    "secret rm",
    "secret jwks",
    "callbacks",
    "callbacks test",
    "logins",
    "logout",
    "secret",
    "grants show",
    "grants statement",
    "grants revoke",
    "grants verify",
    "approvals show",
    "approvals approve",
    "approvals deny",
    "approvals warrant",
    "approvals verify",
    "passkeys show",
    "passkeys revoke",
];

#[test]
fn commands_about_clients_and_secrets_answer_with_json() {
    let world = World::empty();
    world.write(".mcp.json", &json!({ "mcpServers": { "company": world.sample(&[]) } }).to_string());
    let run = |args: &[&str], input: &str| {
        let ran = world.run_with_input(&[args, &["--json"]].concat(), input);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        assert_json(&args.join(" "), &ran);
    };
    run(&["init", "--yes"], "");
    run(&["connect"], "");
    run(&["connect", "--file", "client.json", "--yes"], "");
    run(&["disconnect", "--file", "client.json", "--yes"], "");
    run(&["secret", "set", "TOKEN"], "a-secret-of-some-length\n");
    run(&["secret"], "");
    run(&["secret", "list"], "");
    run(&["secret", "rm", "TOKEN"], "");
    run(&["secret", "jwks"], "");
    run(&["callbacks"], "");
    run(&["logins"], "");
}

/// A failure is reported as JSON, on stderr.
#[test]
fn failures_are_json_too() {
    let world = world();
    let failing: [&[&str]; 12] = [
        &["logout", "company"],
        &["callbacks", "test", "nobody"],
        &["explain", "call_none"],
        &["approvals", "show", "tkt_none"],
        &["approvals", "approve", "tkt_none"],
        &["approvals", "deny", "tkt_none", "--reason", "a test"],
        &["approvals", "warrant", "tkt_none"],
        &["approvals", "verify", "tools.jsonl", "--key", "none"],
        &["grants", "show", "tkt_none"],
        &["grants", "statement", "tkt_none"],
        &["grants", "revoke", "tkt_none", "--reason", "a test"],
        &["grants", "verify", "tools.jsonl", "--key", "none"],
    ];
    for args in failing {
        let ran = world.run(&[args, &["--json"]].concat());
        assert_ne!(ran.code, Some(0), "{args:?}: {ran:?}");
        let last = ran.stderr.lines().last().unwrap_or_default();
        let error: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{args:?}: {error}: {ran:?}"));
        assert!(error["error"]["message"].is_string(), "{args:?}: {error}");
        assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn serve_says_as_json_that_it_is_ready() {
    let world = world();
    let config = world.path("servanda.yaml").display().to_string();
    let mut command = world.command(&["serve", "--json", "--config", &config, "--listen", "127.0.0.1:0"]);
    let mut child = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stdout.take().unwrap());
    let told: Value = serde_json::Deserializer::from_reader(&mut said).into_iter().next().unwrap().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    crate::world::wait_for(&mut child);
    let mut more = String::new();
    said.read_to_string(&mut more).unwrap();
    assert_eq!(more.trim(), "", "it says nothing more");
    assert!(told["ready"]["url"].as_str().unwrap().ends_with("/mcp"), "{told}");
    assert_eq!(told["ready"]["not_answering"], json!({}), "{told}");
}
