//! `servanda calls`, what `serve` prints about calls, and calls that the operator makes for the holder of a key.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    access::{READ, WRITE, payment},
    agent::Agent,
    contract::{count_effects, get_invoice, pay_invoice},
    world::{World, until},
};

const INVOICE: &str = r#"{"invoice_id":"inv_1001"}"#;

fn ids(listed: &Value) -> Vec<&str> {
    listed.as_array().unwrap().iter().map(|call| call["call_id"].as_str().unwrap()).collect()
}

/// Every filter, and the list while a gateway is running, newest first.
#[test]
fn calls_are_listed_newest_first_and_by_every_filter() {
    let world = World::guarded(&[]);
    let (key, credential) = world.key("acme", "ada", &[READ], &[]);
    let gateway = world.serve();
    let ada = gateway.bearing(&key);
    ada.call("company__get_invoice", json!({ "invoice_id": "inv_1001" })).success();
    let refused = ada.call("company__pay_invoice", payment(100)).refusal();
    assert_eq!(refused["gate"], "scope");
    world.call("company__get_invoice", r#"{"invoice_id":7}"#).ended(3);
    let list = |args: &[&str]| world.run(&[&["calls", "--json"], args].concat()).ended(0).json();
    let all = until("the records", || Some(list(&[])).filter(|all| all.as_array().unwrap().len() == 3));
    let all_ids = ids(&all);
    let newest = |number: usize| vec![all_ids[number]];
    let trace = all[1]["trace"].as_str().unwrap();
    let table: [(&[&str], Vec<&str>); 17] = [
        (&[], all_ids.clone()),
        (&["--limit", "1"], newest(0)),
        (&["--caller", "ada"], all_ids[1..].to_vec()),
        (&["--caller", "acme/ada"], all_ids[1..].to_vec()),
        (&["--caller", &credential], all_ids[1..].to_vec()),
        (&["--caller", "local"], newest(0)),
        (&["--tool", "company__pay_invoice"], newest(1)),
        (&["--tool", "company.pay_invoice"], newest(1)),
        (&["--outcome", "completed"], newest(2)),
        (&["--class", "permission_denied"], newest(1)),
        (&["--gate", "scope"], newest(1)),
        (&["--gate", "7", "--caller", "ada"], newest(1)),
        (&["--since", "1h"], all_ids.clone()),
        (&["--until", "1h"], vec![]),
        (&["--trace", trace], newest(1)),
        (&["--trace", trace, "--tool", "company__get_invoice"], vec![]),
        (&["--run", "nobody's"], vec![]),
    ];
    for (args, expected) in table {
        assert_eq!(ids(&list(args)), expected, "{args:?}");
    }
    let one = &all[1];
    assert_eq!(
        json!([one["tenant"], one["principal"], one["credential"], one["outcome"], one["class"], one["gate"]]),
        json!(["acme", "ada", credential, "refused", "PERMISSION_DENIED", "scope"])
    );
    let page = world.run(&["calls"]).ended(0);
    assert!(page.stdout.lines().next().unwrap().contains("CALLER"), "{}", page.stdout);
    let line = page.stdout.lines().nth(2).unwrap();
    for word in ["acme/ada", "company__pay_invoice", "refused", "PERMISSION_DENIED", "scope"] {
        assert!(line.contains(word), "{line}");
    }
    let screen = world.run_on_screen(&["calls"]).ended(0).stderr;
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    for whole in ["acme/ada  company__pay_invoice  ", "\n                   PERMISSION_DENIED at scope\n"] {
        assert!(screen.contains(whole), "{screen}");
    }
    for wrong in
        [["--gate", "polcy"], ["--class", "NOPE"], ["--outcome", "done"], ["--since", "yesterday"], ["--trace", "1"]]
    {
        let told = world.run(&[&["calls"], &wrong[..]].concat()).ended(2);
        assert!(
            ["known ", "2026-11-15", "32 hex digits"].iter().any(|says| told.stderr.contains(says)),
            "{}",
            told.stderr
        );
    }
    let none = world.run(&["calls", "--caller", "nobody"]).ended(0);
    assert_eq!(none.stdout, "", "{}", none.stdout);
    assert!(none.stderr.contains("no recorded call matches"), "{}", none.stderr);
}

/// Calls of one session are its run; sessions are not in tables, which people pass on.
#[test]
fn calls_are_listed_by_their_session_and_as_a_table() {
    let world = World::company([get_invoice()]);
    let gateway = world.serve();
    let (one, other) = (Agent::legacy(gateway.address), Agent::legacy(gateway.address));
    for agent in [&one, &one, &other] {
        agent.ask("tools/call", json!({ "name": "company__get_invoice", "arguments": { "invoice_id": "inv_1001" } }));
    }
    let name = "=HYPERLINK(\"https://example.org\"),\n+x";
    other.ask("tools/call", json!({ "name": name, "arguments": {} }));
    let list = |args: &[&str]| world.run(&[&["calls", "--json"], args].concat()).ended(0).json();
    let all = until("the records", || Some(list(&[])).filter(|all| all.as_array().unwrap().len() == 4));
    let record = world.run(&["explain", ids(&all)[3], "--json"]).ended(0).json();
    let session = record["caller"]["session"].as_str().unwrap().to_owned();
    assert_eq!(ids(&list(&["--run", &session])), ids(&all)[2..]);
    assert_eq!(ids(&list(&["--run", &session, "--outcome", "completed", "--limit", "1"])), ids(&all)[2..3]);
    assert_eq!(ids(&list(&["--run", &session, "--outcome", "refused"])), [""; 0]);

    let table = world.run(&["calls", "--csv"]).ended(0);
    assert!(table.stdout.ends_with("\r\n") && !table.stdout.contains(&session), "{table:?}");
    let rows: Vec<&str> = table.stdout.trim_end_matches("\r\n").split("\r\n").collect();
    assert_eq!(rows.len(), 5, "a call is a line: {table:?}");
    assert!(rows[0].starts_with("call_id,received_at,tenant,principal,"), "{}", rows[0]);
    let cells: Vec<&str> = rows[4].split(',').collect();
    assert_eq!((cells[0], cells[6], cells[7]), (ids(&all)[3], "company__get_invoice", "completed"));
    assert_eq!(cells.len(), rows[0].split(',').count());
    assert!(rows[1].contains(",\"'=HYPERLINK(\"\"https://example.org\"\"), +x\","), "no formula, no line: {}", rows[1]);
    let none = world.run(&["calls", "--csv", "--caller", "nobody"]).ended(0);
    assert_eq!(none.stdout, format!("{}\r\n", rows[0]), "an empty table has its head");
    let both = world.run(&["calls", "--csv", "--json"]).ended(2);
    assert!(both.stderr.contains("two formats"), "{both:?}");
    assert_eq!(world.run(&["calls", "--csv", "--follow"]).code, Some(2));
}

/// The ledger goes away and comes back, and no call is missing.
#[test]
fn following_survives_a_ledger_that_is_away() {
    let world = World::company([get_invoice(), count_effects()]);
    world.call("company__get_invoice", INVOICE).ended(0);
    let mut child = world
        .command(&["calls", "--follow", "--json", "--limit", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["tool"], "company__get_invoice");
    let ledger = world.ledger();
    let away = world.path("away.db");
    std::fs::rename(&ledger, &away).unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines();
    let note = notes.next().unwrap().unwrap();
    assert!(note.contains("is asked again"), "{note}");
    std::fs::rename(&away, &ledger).unwrap();
    world.call("company__count_effects", "{}").ended(0);
    assert_eq!(next()["tool"], "company__count_effects");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(notes.map_while(Result::ok).collect::<Vec<_>>(), [""; 0], "one line, however long it was away");
}

#[test]
fn a_ledger_without_calls_says_so() {
    let world = World::company([get_invoice()]);
    let told = world.run(&["calls"]).ended(1);
    assert!(told.stderr.contains("no call has been recorded yet") && told.stderr.contains("hint: "), "{}", told.stderr);
}

/// Follows the store while other processes write to it: one JSON object per line, the oldest first.
#[test]
fn calls_are_followed_as_they_come() {
    let world = World::company([get_invoice(), count_effects()]);
    world.call("company__get_invoice", INVOICE).ended(0);
    world.call("company__get_invoice", r#"{"invoice_id":"inv_9999"}"#).ended(3);
    let mut child =
        world.command(&["calls", "--follow", "--json", "--limit", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["outcome"], "tool_error", "the newest of those before");
    world.call("company__count_effects", "{}").ended(0);
    let call = next();
    assert_eq!(json!([call["tool"], call["outcome"]]), json!(["company__count_effects", "completed"]));
    world.call("company__get_invoice", "[]").ended(3);
    assert_eq!(json!(next()["gate"]), "parse");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success(), "to be stopped is the way in which it ends");
}

/// A terminal gets one line per call, a log file none unless asked for; a name cannot forge a line.
#[test]
fn serve_prints_one_line_a_call_where_it_is_asked_to() {
    let world = World::guarded(&[]);
    let (key, _) = world.key("acme", "ada", &[READ, WRITE], &[]);
    let gateway = world.serve_with(&["--calls", "always"], &[]);
    let ada = gateway.bearing(&key);
    ada.call("company__get_invoice", json!({ "invoice_id": "inv_1001" })).success();
    let line = until("the line", || gateway.said().lines().find(|line| line.contains("completed")).map(str::to_owned));
    assert!(line.contains(" acme/ada company__get_invoice completed ") && line.contains(" ms call_"), "{line}");
    assert_eq!(line.find(':'), Some(2), "it begins with the time: {line}");
    ada.call("company__get_invoice", json!({ "invoice_id": 7 })).refusal();
    let refused =
        until("the line", || gateway.said().lines().find(|line| line.contains("refused at")).map(str::to_owned));
    assert!(refused.contains("refused at types (TYPE_MISMATCH)"), "{refused}");
    let legacy = Agent::legacy_bearing(gateway.address, &key);
    legacy.ask("tools/call", json!({ "name": "x\n09:00:00 admin pay completed\u{1b}[2J", "arguments": {} }));
    let forged = until("the line", || gateway.said().lines().find(|line| line.contains("admin")).map(str::to_owned));
    assert!(forged.contains("x\\n09:00:00") && !forged.chars().any(char::is_control), "{forged:?}");
    drop(gateway);
    let quiet = world.serve();
    let ada = quiet.bearing(&key);
    ada.call("company__get_invoice", json!({ "invoice_id": "inv_1001" })).success();
    until("the record", || {
        let listed = world.run(&["calls", "--json", "--outcome", "completed"]).ended(0).json();
        (listed.as_array().unwrap().len() == 2).then_some(())
    });
    assert!(!quiet.said().contains("completed"), "{}", quiet.said());
}

/// The tool did not report an error: the list, the line of `serve` and `explain` say that the call timed out. The stored record is
/// unchanged.
#[test]
fn a_read_that_ran_out_of_time_is_said_to_have() {
    let mut slow = crate::contract::reads("misbehave_slow")
        .input(&["milliseconds"], &json!({ "milliseconds": { "type": "integer", "minimum": 0 } }));
    // The contract's time begins when the server has started, however long a busy machine takes for that.
    slow.0["runtime"]["timeout_ms"] = json!(2_000);
    let world = World::company([slow]);
    let ran = world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":60000}"#]);
    let id = ran.ended(3).call_id();
    let listed = world.run(&["calls"]).ended(0).stdout;
    assert!(listed.contains("company__misbehave_slow  timed out  "), "{listed}");
    assert!(listed.contains("TIMEOUT at perform"), "{listed}");
    let page = world.run(&["explain", &id]).ended(0).stdout;
    assert!(page.contains("outcome   timed out · TIMEOUT"), "{page}");
    let json = world.run(&["calls", "--json", "--outcome", "tool_error"]).ended(0).json();
    assert_eq!((&json[0]["outcome"], &json[0]["class"]), (&json!("tool_error"), &json!("TIMEOUT")), "{json}");
}

/// A label that several keys have is answered with their ids.
#[test]
fn a_label_of_two_keys_is_answered_with_their_ids() {
    let world = World::guarded(&[]);
    let (_, one) = world.key("acme", "ada", &[READ], &[]);
    let (_, other) = world.key("acme", "bo", &[READ], &[]);
    let told = world.run(&["call", "company__get_invoice", INVOICE, "--as", "test"]).ended(2).stderr;
    assert!(told.contains("more than one key is named `test`"), "{told}");
    for key in [one, other] {
        let id = key.strip_prefix("key:").unwrap();
        assert!(told.contains(&format!("`{}`", &id[..8])), "{told}");
        world.run(&["call", "company__get_invoice", INVOICE, "--as", &id[..8]]).ended(0);
    }
}

/// If the key goes to a file, the sentence about it does not end in a colon that nothing follows.
#[test]
fn a_key_that_goes_elsewhere_is_said_to() {
    let world = World::company([get_invoice()]);
    let args = ["keys", "create", "--tenant", "acme", "--principal", "ada", "--label", "laptop"];
    let piped = world.run(&args).ended(0);
    assert!(piped.stderr.contains("the key itself went to stdout") && !piped.stderr.contains("hash:"), "{piped:?}");
    let seen = world.run_on_screen(&args).ended(0).stderr;
    assert!(seen.contains("it is kept only as a hash:\nsvk_"), "{seen}");
}

/// The operator calls as the holder of a key: found by label, id or name, with the key's rights, and recorded as the operator.
#[test]
fn a_call_is_made_as_the_holder_of_a_key() {
    let world = World::guarded(&[]);
    let (key, credential) = world.key("acme", "ada", &[READ], &[]);
    for name in ["test", &credential, &credential[..12], "acme/ada"] {
        world.run(&["call", "company__get_invoice", INVOICE, "--as", name]).ended(0);
    }
    let pay = payment(100).to_string();
    let refused = world.run(&["call", "company__pay_invoice", &pay, "--as", "test"]).ended(3);
    assert!(refused.stderr.contains("refused at scope"), "{}", refused.stderr);
    // A dry run shows what the holder would get, without making the call.
    let shown = world.run(&["call", "company__pay_invoice", &pay, "--as", "test", "--dry-run"]).ended(5);
    assert!(shown.stdout.contains("would be refused at scope"), "{}", shown.stdout);
    world.run(&["call", "company__pay_invoice", &pay, "--dry-run"]).ended(0);
    assert_eq!(world.effects(), 0);
    world.call("company__pay_invoice", &pay).ended(0);
    let record = world.record(&refused.call_id());
    assert_eq!(record["caller"]["tenant"], "acme");
    assert_eq!(record["caller"]["credential"], format!("operator:{credential}"));
    assert!(record["caller"]["client"].as_str().unwrap().contains("operated by "), "{record}");
    let page = world.run(&["explain", &refused.call_id()]).ended(0).stdout;
    assert!(page.contains(&format!("the operator, for the holder of {credential}, which was not shown")), "{page}");
    let listed = world.run(&["calls", "--json", "--caller", &credential]).ended(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 6, "they are the key's calls too");
    // The key itself is never accepted on a command line.
    let told = world.run(&["call", "company__get_invoice", INVOICE, "--as", &key]).ended(2);
    assert!(!told.everything().contains(&key) && told.stderr.contains("never the key itself"), "{}", told.stderr);
    let unknown = world.run(&["call", "company__get_invoice", INVOICE, "--as", "nobody"]).ended(2);
    assert!(unknown.stderr.contains("hint: `servanda keys list`"), "{}", unknown.stderr);
    world.run(&["keys", "revoke", &credential]).ended(0);
    let revoked = world.run(&["call", "company__get_invoice", INVOICE, "--as", &credential]).ended(2);
    assert!(revoked.stderr.contains("was revoked"), "{}", revoked.stderr);
}

/// The command that makes a key without scopes says that it may call nothing, and names the flags that add scopes.
#[test]
fn a_key_without_scopes_is_told_that_it_may_call_nothing() {
    let world = World::company([get_invoice().scopes(&[READ]), pay_invoice().scopes(&[READ, WRITE])]);
    let args = ["keys", "create", "--tenant", "acme", "--principal", "ada", "--label", "laptop"];
    let told = world.run(&args).ended(0).stderr;
    let expected = "note: it has no scopes, so it may call nothing; a key gets scopes when it is made: \
                    --scope company:read --scope company:write\n";
    assert!(told.contains(expected), "{told}");
    let made = world.run(&[&args[..], &["--json"]].concat()).ended(0).json();
    assert!(made["notes"][0].as_str().unwrap().contains("may call nothing"), "{made}");
}

/// The advice can be pasted: the limit is then the advised one.
#[test]
fn an_advised_limit_can_be_pasted_below_its_tool() {
    let world = World::empty();
    let sample = json!({ "command": crate::world::BINARY, "args": ["sample", "--misbehave"] });
    world.write(".mcp.json", &json!({ "mcpServers": { "company": sample } }).to_string());
    world.run(&["init", "--yes"]).ended(0);
    // Long enough for a busy machine to start the server.
    world.run(&["call", "company__misbehave_slow", r#"{"milliseconds":60000}"#, "--timeout-ms", "6000"]);
    let told = world.run(&["tools", "--latency"]).ended(0).stderr;
    let advice = told.split_once("write `").unwrap().1;
    let (pasted, place) = advice.split_once('`').unwrap();
    assert!(pasted.starts_with("runtime: { timeout_ms: "), "{told}");
    assert!(place.starts_with(" below `misbehave_slow:` in contracts/company.yaml"), "{told}");
    let file = world.read("contracts/company.yaml");
    world.write(
        "contracts/company.yaml",
        &file.replace("  misbehave_slow:\n", &format!("  misbehave_slow:\n    {pasted}\n")),
    );
    world.run(&["check"]).ended(0);
    let now = world.run(&["tools", "--latency", "--json"]).ended(0).json();
    let limit = pasted.trim_start_matches("runtime: { timeout_ms: ").trim_end_matches(" }");
    assert_eq!(now[0]["limit_ms"].to_string(), limit, "{now}");
}

/// Times are taken from the records, and a limit that calls run into is named with its file and field.
#[test]
fn latencies_are_learned_and_a_limit_that_is_too_short_is_named() {
    let mut slow = crate::contract::reads("misbehave_slow")
        .input(&["milliseconds"], &json!({ "milliseconds": { "type": "integer", "minimum": 0 } }));
    slow.0["runtime"]["timeout_ms"] = json!(1_000);
    let world = World::company([slow, count_effects()]);
    let nothing = world.run(&["tools", "--latency"]).ended(1);
    assert!(nothing.stderr.contains("no call has been recorded yet"), "{}", nothing.stderr);
    let gateway = world.serve();
    let agent = gateway.modern();
    for _ in 0..25 {
        agent.call("company__count_effects", json!({})).success();
    }
    agent.call("company__misbehave_slow", json!({ "milliseconds": 10 })).success();
    agent.call("company__misbehave_slow", json!({ "milliseconds": 60_000 })).refusal();
    let latency = |tool: &str| {
        let shown = world.run(&["tools", "--latency", "--json"]).ended(0).json();
        shown.as_array().unwrap().iter().find(|one| one["tool"] == tool).unwrap().clone()
    };
    let counted = until("the records", || Some(latency("company__count_effects")).filter(|one| one["answered"] == 25));
    assert_eq!((&counted["timed_out"], &counted["suggested"]), (&json!(0), &Value::Null), "{counted}");
    let (p50, p99) = (counted["p50_ms"].as_u64().unwrap(), counted["p99_ms"].as_u64().unwrap());
    assert!(p50 <= p99 && p99 < 5_000, "{counted}");
    let slow = latency("company__misbehave_slow");
    assert_eq!((&slow["answered"], &slow["timed_out"], &slow["limit_ms"]), (&json!(1), &json!(1), &json!(1_000)));
    assert_eq!(slow["suggested"]["timeout_ms"], 2_000);
    let page = world.run(&["tools", "--latency"]).ended(0);
    assert!(
        page.stderr.contains("1 of 2 calls timed out") && page.stderr.contains("set `runtime.timeout_ms: 2000` in "),
        "{}",
        page.stderr
    );
    assert!(page.stderr.contains("contracts/company.misbehave_slow.json"), "{}", page.stderr);
}
