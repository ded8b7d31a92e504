//! Where output goes: data on stdout, the rest on stderr, colour only for people; a closed pipe is no failure.

use std::process::Stdio;

use serde_json::json;

use crate::{
    contract::{get_invoice, pay_invoice, reads},
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
    // If asked for, colour is used even in a pipe, and adds nothing to the words.
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
    world.run(&["init", "--yes"]).ended(0);
    // The user's home is shown as `~`.
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

/// If stderr is closed, the data are still written.
#[test]
fn a_closed_stderr_stops_no_command() {
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

/// A log that cannot be written delays neither the call nor the ledger's thread.
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

/// A result that would set the title, clear the screen, and reverse the text after it.
const STEERING: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2Jb\u{202e}c\u{1b}[32md";

#[test]
fn what_a_tool_says_steers_no_terminal_unless_a_person_wants_it() {
    let world = World::empty();
    let result =
        json!({ "content": [{ "type": "text", "text": STEERING }], "structuredContent": { "text": STEERING } });
    world.configure(&json!({ "company": world.stub(&["look"], Some(&result)) }));
    world.add(&reads("look"));
    let world = world.unpinned();
    let steers =
        |text: &str| text.chars().any(|one| (one.is_control() && one != '\n' && one != '\r') || one == '\u{202e}');

    let shown = world.run_on_screen(&["call", "company__look", "{}"]).ended(0);
    assert!(!steers(&shown.stderr) && shown.stderr.contains("a<U+001B>]0;owned<U+0007>"), "{:?}", shown.stderr);
    let raw = world.run_on_screen(&["call", "--raw", "company__look", "{}"]).ended(0);
    assert!(raw.stderr.contains(STEERING), "{:?}", raw.stderr);
    let piped = world.call("company__look", "{}").ended(0);
    assert!(piped.stdout.contains(STEERING), "a program gets what the tool said: {:?}", piped.stdout);
    let json = world.run_on_screen(&["--json", "call", "company__look", "{}"]).ended(0);
    assert!(!steers(&json.stderr) && json.stderr.contains("\\u202e"), "{:?}", json.stderr);
    for command in [&["explain", "--last"][..], &["explain"], &["--json", "explain", "--last"], &["tools"]] {
        let shown = world.run_on_screen(command).ended(0);
        assert!(!steers(&shown.stderr), "{command:?}: {:?}", shown.stderr);
    }
    // A tool name that does not exist.
    let unknown = world.run_on_screen(&["call", STEERING, "{}"]);
    assert!(!steers(&unknown.stderr), "{:?}", unknown.stderr);
}

/// The text without the colour codes that we and the log use, and without the erased lines of our own "calling …" of a call that takes a
/// second. Any escape that is left is foreign.
fn without_our_colours(text: &str) -> String {
    let ours = ["31", "32", "33", "34", "35", "39", "1", "2", "0", "3", "4"].map(|code| format!("\u{1b}[{code}m"));
    ours.iter().fold(text.replace("\r\u{1b}[2K", ""), |rest, code| rest.replace(code.as_str(), ""))
}

/// A server that uses our colour codes gets no colour on a terminal that shows ours.
#[test]
fn colour_is_ours_alone() {
    let world = World::empty();
    let result = json!({ "content": [{ "type": "text", "text": "\u{1b}[32mgood\u{1b}[0m \u{1b}[8mhidden" }] });
    world.configure(&json!({ "company": world.stub(&["look"], Some(&result)) }));
    world.add(&reads("look"));
    let world = world.unpinned();
    let shown = world.run_in_colour(&["call", "company__look", "{}"]).ended(0);
    assert!(
        !shown.stderr.contains('\u{1b}') && shown.stderr.contains("<U+001B>[32mgood<U+001B>[0m"),
        "{:?}",
        shown.stderr
    );
    let listed = world.run_in_colour(&["connect"]).ended(0).stderr;
    assert!(listed.contains("\u{1b}[2m"), "ours is there: {listed:?}");
    assert!(!without_our_colours(&listed).contains('\u{1b}') && !listed.contains("U+001B"), "{listed:?}");
    let failed = world.run_in_colour(&["call", "company__none", "{}"]);
    assert!(failed.stderr.contains("\u{1b}[31merror:\u{1b}[39m "), "{:?}", failed.stderr);
}

/// Errors and the log quote the command line, a configured command and a server's last output: none of these texts controls the terminal.
#[test]
fn neither_the_log_nor_a_usage_error_steers_a_terminal() {
    let world = World::empty();
    world.configure(&json!({
        "gone": { "command": format!("/no/{STEERING}") },
        "loud": { "command": "sh", "args": ["-c", format!("printf '%s\\n' '{STEERING}' >&2; exit 3")] },
    }));
    world.add(&reads("look").of("gone"));
    world.add(&reads("look").of("loud"));
    let world = world.unpinned();
    let steers = |text: &str| {
        let text = without_our_colours(text).replace("\u{1b}[32md", "");
        text.chars().any(|one| (one.is_control() && one != '\n') || one == '\u{202e}')
    };
    let config = format!("--config={STEERING}");
    let commands: [&[&str]; 9] = [
        &["-vv", "tools"],
        &["-vv", "call", "gone__look", "{}"],
        &["-vv", "call", "loud__look", "{}"],
        &["-vv", "call", STEERING, "{}"],
        &[STEERING],
        &["schema", STEERING],
        &["call", "--timeout-ms", STEERING],
        &[&config, "check"],
        &["connect", STEERING],
    ];
    for command in commands {
        let shown = world.run_in_colour(command);
        assert!(!steers(&shown.stderr), "{command:?}: {:?}", shown.stderr);
        let escapes = shown.stderr.matches("<U+202E>").count() + shown.stderr.matches("\\u{202e}").count();
        assert!(escapes > 0 || command.contains(&"tools"), "{command:?}: {:?}", shown.stderr);
    }
}
