//! Where things are printed: data on stdout, the rest on stderr, colour only for people, and nobody minds a closed pipe.

use std::process::Stdio;

use serde_json::json;

use crate::{
    contract::{get_invoice, pay_invoice},
    world::{World, read_aside, wait_for},
};

const COMMANDS: [&[&str]; 8] = [
    &["--help"],
    &["check"],
    &["tools"],
    &["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#],
    &["call", "company__get_invoice", r#"{"invoice_id":1}"#],
    &["explain", "--last"],
    &["explain"],
    &["doctor"],
];

#[test]
fn pipes_get_no_escape_codes() {
    let world = World::company([get_invoice(), pay_invoice()]);
    for environment in [&[] as &[(&str, &str)], &[("NO_COLOR", "1")], &[("NO_COLOR", "1"), ("TERM", "xterm-256color")]]
    {
        for args in COMMANDS {
            let ran = world.run_with_env(args, environment);
            assert!(!ran.everything().contains('\u{1b}'), "{args:?} {environment:?}: {:?}", ran.everything());
        }
    }
    // Asked for, colour comes even into a pipe, and says nothing that the words do not.
    let plain = world.run(&["explain", "--last"]).ended(0).stdout;
    let coloured = world.run_with_env(&["explain", "--last"], &[("FORCE_COLOR", "1")]).ended(0).stdout;
    assert!(coloured.contains('\u{1b}'));
    assert_eq!(without_escapes(&coloured), plain);
}

/// With names as long as real servers have them.
#[test]
fn tables_fit_a_terminal_of_80_columns() {
    let world = World::empty();
    world.write(
        ".mcp.json",
        &json!({ "mcpServers": { "every": world.stub(&["trigger-long-running-operation"], None) } }).to_string(),
    );
    world.run(&["init"]).ended(0);
    // Where somebody lives is written as `~`.
    let elsewhere = [("HOME", "/nonexistent/home"), ("PATH", "/usr/bin:/bin")];
    for args in [&["pins"] as &[&str], &["pins", "--offline"], &["connect"]] {
        let ran = world.run_with_env(args, &elsewhere).ended(0);
        assert!(ran.stdout.lines().count() > 1, "{ran:?}");
        for line in ran.stdout.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
}

#[test]
fn json_on_stdout_is_alone() {
    let world = World::company([get_invoice()]);
    let commands: [&[&str]; 6] = [
        &["check"],
        &["tools"],
        &["tools", "--offline"],
        &["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#],
        &["explain"],
        &["explain", "--last"],
    ];
    for args in commands {
        for at_front in [true, false] {
            let args = if at_front { [&["--json"], args].concat() } else { [args, &["--json", "-v"]].concat() };
            let ran = world.run(&args).ended(0);
            ran.json();
        }
    }
}

/// `servanda ... | head -1` ends quietly.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::company([get_invoice()]);
    world.call("company__get_invoice", r#"{"invoice_id":"inv_1001"}"#).ended(0);
    let commands: [&[&str]; 7] = [
        &["--help"],
        &["schema", "contract"],
        &["tools"],
        &["tools", "--json"],
        &["explain"],
        &["explain", "--last"],
        &["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#],
    ];
    for args in commands {
        let mut command = world.command(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let stderr = read_aside(child.stderr.take().unwrap());
        let code = wait_for(&mut child);
        let stderr = stderr.join().unwrap();
        assert!(!stderr.contains("panicked") && !stderr.contains("error:"), "{args:?}: {stderr}");
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
    }
}

/// Whoever closes stderr has the data all the same.
#[test]
fn a_closed_stderr_stops_nobody() {
    let world = World::company([get_invoice()]);
    let mut command = world.command(&["call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    let stdout = read_aside(child.stdout.take().unwrap());
    assert_eq!(wait_for(&mut child), Some(0));
    assert!(stdout.join().unwrap().contains("inv_1001"));
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut inside = false;
    for character in text.chars() {
        match (inside, character) {
            (false, '\u{1b}') => inside = true,
            (false, other) => plain.push(other),
            (true, 'm') => inside = false,
            (true, _) => {}
        }
    }
    plain
}

/// A log that cannot be written holds up nothing: not the call, and not the ledger's thread.
#[test]
fn a_log_on_a_full_disk_is_lost_and_nothing_else() {
    let world = World::company([get_invoice()]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = world.command(&["-vv", "call", "company__get_invoice", r#"{"invoice_id":"inv_1001"}"#, "--json"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full).spawn().unwrap();
    let stdout = read_aside(child.stdout.take().unwrap());
    assert_eq!(wait_for(&mut child), Some(0));
    assert!(stdout.join().unwrap().contains("inv_1001"));
    assert!(world.run(&["explain", "--last"]).ended(0).stdout.contains("get_invoice"));
}
