//! `servanda ledger` and `servanda migrate`: backups, restoring, accepting, settling a lost period, and versions.

use std::fs;

use rusqlite::Connection;
use serde_json::json;

use crate::{
    damage::{company, pay, try_to_start},
    world::{BINARY, World},
};

fn version(world: &World) -> u32 {
    let ledger = Connection::open(world.path(".servanda/ledger.db")).unwrap();
    ledger.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// A ledger of schema version seven.
fn of_version_seven(world: &World) {
    fs::create_dir_all(world.path(".servanda")).unwrap();
    let ledger = Connection::open(world.path(".servanda/ledger.db")).unwrap();
    for migration in [
        include_str!("../../../ledger/sql/sqlite/0001_calls.sql"),
        include_str!("../../../ledger/sql/sqlite/0002_notes.sql"),
        include_str!("../../../ledger/sql/sqlite/0003_effects.sql"),
        include_str!("../../../ledger/sql/sqlite/0004_open_records.sql"),
        include_str!("../../../ledger/sql/sqlite/0005_turns.sql"),
        include_str!("../../../ledger/sql/sqlite/0006_settled.sql"),
        include_str!("../../../ledger/sql/sqlite/0007_budgets.sql"),
    ] {
        ledger.execute_batch(migration).unwrap();
    }
    ledger.pragma_update(None, "user_version", 7).unwrap();
}

#[test]
fn a_copy_is_made_beside_a_running_gateway_and_put_back_only_without_one() {
    let world = company();
    let gateway = world.serve();
    pay(&gateway, "order-1").success();
    world.run(&["ledger", "backup", "copy.db"]).ended(0);
    assert!(world.run(&["ledger", "backup", "copy.db"]).ended(1).stderr.contains("already"));
    pay(&gateway, "order-2").success();
    let status = world.run(&["ledger", "status", "--json"]).ended(0).json();
    assert_eq!((&status["in_use"], &status["refused"]), (&json!(true), &json!(null)), "{status}");
    let verified = world.run(&["ledger", "verify", "--json"]).ended(0).json();
    assert_eq!((&verified["effects"], &verified["problems"]), (&json!(2), &json!([])), "{verified}");
    let restore = ["ledger", "restore", "copy.db", "--evidence", "a trial"];
    let refused = world.run(&restore).ended(1);
    assert!(refused.stderr.contains("in use") && refused.stderr.contains("stop the gateway"), "{}", refused.stderr);
    drop(gateway);
    let effects = world.effects();
    let books = world.path("books.db");
    rusqlite::Connection::open(&books).unwrap().execute_batch("create table t (x); pragma user_version = 7").unwrap();
    let none = world.run(&["ledger", "restore", "books.db", "--evidence", "a trial"]).ended(2);
    assert!(none.stderr.contains("it holds no ledger") && none.stderr.contains("hint: "), "{}", none.stderr);
    assert!(!world.has(".servanda/ledger.db.before-restore-1"), "nothing was moved");
    let restored = world.run(&restore).ended(0);
    assert!(restored.stdout.contains("a trial") && restored.stdout.contains("is lost"), "{}", restored.stdout);
    assert!(world.has(".servanda/ledger.db.before-restore-1"));
    let gateway = world.serve();
    assert_eq!(pay(&gateway, "order-1").observation()["execution_metadata"]["idempotency_hit"], true);
    assert_eq!(pay(&gateway, "order-2").refusal()["effect"], "unknown");
    assert_eq!(world.effects(), effects);
}

#[test]
fn a_lost_time_is_settled_key_by_key_or_as_a_whole() {
    let world = company();
    let gateway = world.serve();
    pay(&gateway, "order-1").success();
    drop(gateway);
    fs::remove_dir_all(world.path(".servanda")).unwrap();
    let told = world.run(&["ledger", "adopt", "--evidence", ""]).ended(2);
    assert!(told.stderr.contains("--evidence"), "{}", told.stderr);
    world.run(&["ledger", "adopt", "--evidence", "the disk died"]).ended(0);
    world.run(&["ledger", "adopt", "--evidence", "again"]).ended(0);
    let status = world.run(&["ledger", "status", "--json"]).ended(0).json();
    assert_eq!(status["adoptions"].as_array().unwrap().len(), 1, "there is nothing to accept twice: {status}");
    assert_eq!(status["adoptions"][0]["evidence"], "the disk died");
    let gateway = world.serve();
    let effects = world.effects();
    let keyless = gateway
        .modern()
        .call("company__pay_invoice", json!({ "invoice_id": "inv_1003", "amount_cents": 7, "currency": "CHF" }));
    keyless.success();
    let stopped = pay(&gateway, "order-2").refusal();
    assert_eq!((&stopped["effect"], &stopped["retryable"]), (&json!("unknown"), &json!(false)), "{stopped}");
    let handle = stopped["handle"].as_str().unwrap().to_owned();
    let settle = ["effects", "settle", &handle, "--as", "not-executed", "--evidence", "the bank has no such payment"];
    world.run(&settle).ended(0);
    pay(&gateway, "order-2").success();
    assert_eq!(pay(&gateway, "order-3").refusal()["effect"], "unknown");
    let settled = world.run(&["ledger", "settle-lost", "--evidence", "looked at the bank's list"]).ended(0);
    assert!(settled.stdout.contains("is settled"), "{}", settled.stdout);
    pay(&gateway, "order-4").success();
    assert_eq!(pay(&gateway, "order-3").refusal()["effect"], "unknown", "a person looks at what was stopped");
    assert_eq!(world.effects(), effects + 3);
}

#[test]
fn only_serve_stdio_and_migrate_bring_a_ledger_up_to_date_and_only_after_a_backup() {
    let world = company();
    of_version_seven(&world);
    let commands: [&[&str]; 7] = [
        &["explain"],
        &["effects"],
        &["keys", "list"],
        &["keys", "create", "--tenant", "acme", "--principal", "ada", "--label", "ci"],
        &["call", "company__count_effects"],
        &["budgets"],
        &["quarantine", "list"],
    ];
    for command in commands {
        let told = world.run(command).ended(2);
        assert!(
            told.stderr.contains("schema version 7") && told.stderr.contains("`servanda migrate`"),
            "{command:?}: {}",
            told.stderr
        );
        assert_eq!(version(&world), 7, "{command:?}");
    }
    let doctor = world.run(&["doctor"]).ended(1);
    assert!(
        doctor.stdout.contains("schema version 7") && doctor.stdout.contains("`servanda migrate`"),
        "{}",
        doctor.stdout
    );
    let backup = ".servanda/ledger.db.version-7.backup";
    let dry = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(dry.stdout.contains("would be brought from version 7") && dry.stdout.contains(backup), "{}", dry.stdout);
    assert_eq!((version(&world), world.has(backup)), (7, false));
    let done = world.run(&["migrate"]).ended(0);
    assert!(done.stdout.contains(backup), "{}", done.stdout);
    assert!(version(&world) > 7 && world.has("servanda.position"));
    let copied = Connection::open(world.path(backup)).unwrap();
    let before: u32 = copied.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(before, 7);
    world.run(&["migrate"]).ended(0);
    world.run(&["effects"]).ended(0);
}

#[test]
fn the_first_start_takes_a_ledger_of_an_earlier_version_over_and_says_where_its_copy_is() {
    let world = company();
    of_version_seven(&world);
    let started = try_to_start(&world).ended(0);
    assert!(started.stderr.contains("ledger.db.version-7.backup"), "{}", started.stderr);
    assert!(version(&world) > 7);
    // From now on the migrated ledger is the known one: the backup is not accepted in its place.
    fs::copy(world.path(".servanda/ledger.db.version-7.backup"), world.path(".servanda/ledger.db")).unwrap();
    let refused = try_to_start(&world).ended(2);
    assert!(refused.stderr.contains("without an identity"), "{}", refused.stderr);
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_disk_without_room_is_not_writable() {
    let world = company();
    try_to_start(&world).ended(0);
    assert!(world.run(&["doctor"]).stdout.contains("ledger.db is writable"));
    #[expect(clippy::disallowed_methods, reason = "a shell sets the limit")]
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 256; exec \"$0\" doctor", BINARY]).current_dir(world.path("."));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("FAIL ledger") && said.contains("cannot be written to"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_ledger_that_is_none_is_restored_or_accepted_and_never_moved_away_by_hand() {
    let world = World::empty();
    world.configure(&json!({}));
    world.write(".servanda/ledger.db", &"this is no database ".repeat(500));
    let ran = world.run(&["doctor"]).ended(1);
    assert!(ran.stdout.contains("ledger restore") && !ran.stdout.contains("away"), "{}", ran.stdout);
    try_to_start(&world).ended(2);
    world.run(&["ledger", "adopt", "--evidence", "no backup; nothing was sent since Monday"]).ended(0);
    assert!(world.has(".servanda/ledger.db.lost-1"), "what was there is kept");
    try_to_start(&world).ended(0);
}
