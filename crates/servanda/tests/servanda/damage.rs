//! The ledger is damaged in eight ways while no gateway runs, after a kill and after a clean end. Either every acknowledged key is still
//! answered from the ledger, or the gateway refuses to start and says what to do; no acknowledged key runs again.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::{
    agent::Reply,
    contract::{count_effects, pay_invoice},
    gateway::Gateway,
    world::{Ran, World, until},
};

/// The damage to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Removed,
    TruncatedToZero,
    WithoutLog,
    LogCutInTheMiddle,
    LogCutAtACommit,
    LogByteFlipped,
    OldBackup,
    Foreign,
}

/// How the gateway ended before the damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    Clean,
}

/// Keys that were acknowledged before the backup was made, and after it.
const KEYS: [&str; 6] = ["order-1", "order-2", "order-3", "order-4", "order-5", "order-6"];

/// All six are different payments; a key always means the same one.
pub(crate) fn pay(gateway: &Gateway, key: &str) -> Reply {
    let amount_cents = 100 + u64::from(*key.as_bytes().last().unwrap());
    let arguments = json!({ "invoice_id": "inv_1003", "amount_cents": amount_cents, "currency": "CHF" });
    let agent = gateway.modern();
    let question = agent.question(1, "tools/call", json!({ "name": "company__pay_invoice", "arguments": arguments }));
    Reply::of(agent.exchange(&question.with("idempotency-key", key)).text())
}

pub(crate) fn company() -> World {
    World::company([pay_invoice(), count_effects()])
}

fn ledger(world: &World) -> PathBuf {
    world.path(".servanda/ledger.db")
}

fn log(world: &World) -> PathBuf {
    world.path(".servanda/ledger.db-wal")
}

/// Starts the gateway and stops it at once, or it refuses to start.
pub(crate) fn try_to_start(world: &World) -> Ran {
    world.run_with_input(&["stdio"], "")
}

/// Every key is acknowledged, but the database file has only the first half of them: an open reader keeps the rest in the write-ahead log.
fn acknowledged(end: End) -> World {
    let world = company();
    let gateway = world.serve();
    for key in &KEYS[..3] {
        pay(&gateway, key).success();
    }
    world.run(&["ledger", "backup", "old.db"]).ended(0);
    let reader = rusqlite::Connection::open(ledger(&world)).unwrap();
    reader.execute_batch("begin; select count(*) from effects").unwrap();
    for key in &KEYS[3..] {
        pay(&gateway, key).success();
    }
    match end {
        End::Killed => gateway.kill(),
        End::Clean => {
            drop(reader);
            assert!(gateway_ends(gateway));
            return world;
        }
    }
    // Closing the last connection must not checkpoint the log.
    let persist = "pragma query_only = on";
    reader.execute_batch(persist).unwrap();
    let copies = (fs::read(ledger(&world)).unwrap(), fs::read(log(&world)).unwrap());
    drop(reader);
    fs::write(ledger(&world), copies.0).unwrap();
    fs::write(log(&world), copies.1).unwrap();
    let _ = fs::remove_file(world.path(".servanda/ledger.db-shm"));
    world
}

fn gateway_ends(mut gateway: Gateway) -> bool {
    gateway.terminate();
    gateway.wait() == Some(0)
}

/// The offsets of the log's current frames that end a commit, in its last quarter, and the size of a frame.
fn late_commits(log: &[u8]) -> (Vec<usize>, usize) {
    let page_bytes = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    let frame_bytes = 24 + page_bytes;
    let of_this_turn = |frame: &&[u8]| frame[8..16] == log[16..24];
    let frames: Vec<&[u8]> = log[32..].chunks_exact(frame_bytes).take_while(of_this_turn).collect();
    let commits = frames.iter().enumerate().skip(frames.len() * 3 / 4).filter(|(_, frame)| frame[4..8] != [0; 4]);
    (commits.map(|(index, _)| 32 + index * frame_bytes).collect(), frame_bytes)
}

fn damage(world: &World, damage: Damage) {
    let change_log = |change: &dyn Fn(&mut Vec<u8>)| {
        // After a clean end there is no log.
        if let Ok(mut bytes) = fs::read(log(world))
            && bytes.len() > 32
        {
            change(&mut bytes);
            fs::write(log(world), bytes).unwrap();
        }
    };
    match damage {
        Damage::Removed => fs::remove_dir_all(world.path(".servanda")).unwrap(),
        Damage::TruncatedToZero => fs::write(ledger(world), "").unwrap(),
        Damage::WithoutLog => drop(fs::remove_file(log(world))),
        Damage::LogCutInTheMiddle => change_log(&|bytes| bytes.truncate(late_commits(bytes).0[0] / 2)),
        Damage::LogCutAtACommit => change_log(&|bytes| {
            let (commits, frame_bytes) = late_commits(bytes);
            bytes.truncate(commits[0] + frame_bytes - 5);
        }),
        Damage::LogByteFlipped => change_log(&|bytes| {
            let at = late_commits(bytes).0[0] + 700;
            bytes[at] ^= 0x20;
        }),
        Damage::OldBackup => {
            let _ = fs::remove_file(log(world));
            fs::copy(world.path("old.db"), ledger(world)).unwrap();
        }
        Damage::Foreign => {
            let other = company();
            let gateway = other.serve();
            pay(&gateway, "order-9").success();
            drop(gateway);
            let _ = fs::remove_file(log(world));
            fs::copy(ledger(&other), ledger(world)).unwrap();
        }
    }
}

/// The rule: a gateway never starts with a ledger that lacks something acknowledged.
fn never_runs_an_acknowledged_key_again(what: Damage, end: End) {
    let world = acknowledged(end);
    damage(&world, what);
    let effects = world.effects();
    let log_only = !matches!(what, Damage::Removed | Damage::TruncatedToZero | Damage::OldBackup | Damage::Foreign);
    let lacks_nothing = log_only && end == End::Clean;
    let started = try_to_start(&world);
    if lacks_nothing {
        started.ended(0);
    } else {
        let refused = started.ended(2);
        assert!(refused.stderr.contains("servanda.position"), "{}", refused.stderr);
        assert!(refused.stderr.contains("hint: ") && refused.stderr.contains("servanda ledger adopt"), "{refused:?}");
        let doctor = world.run(&["doctor"]).ended(1);
        assert!(doctor.stdout.contains("FAIL ledger") && !doctor.stdout.contains("away"), "{}", doctor.stdout);
        try_to_start(&world).ended(2);
        let adopted = world.run(&["ledger", "adopt", "--evidence", "a trial"]).ended(0);
        assert!(adopted.stdout.contains("is lost"), "{}", adopted.stdout);
    }
    let gateway = world.serve();
    let mut answered = 0;
    for key in KEYS {
        let again = pay(&gateway, key);
        if again.message["result"]["isError"] == true {
            let refusal = again.refusal();
            // A call that was cut off between its dispatch and its end counts as running until its owner has been silent for a while.
            let is_under_way = refusal["error_code"] == "IDEMPOTENCY_CONFLICT";
            let is_lost =
                refusal["effect"] == "unknown" && refusal["message"].as_str().unwrap().contains("ledger lost");
            assert!(is_under_way || is_lost, "{key}: {refusal}");
        } else {
            assert_eq!(again.observation()["execution_metadata"]["idempotency_hit"], true, "{key}");
            answered += 1;
        }
    }
    assert_eq!(world.effects(), effects, "the company's own books know of no second payment");
    if lacks_nothing {
        assert_eq!(answered, KEYS.len());
    } else {
        assert!(answered < KEYS.len(), "something was lost");
    }
}

macro_rules! sixteen_kinds_of_damage {
    ($($name:ident: $damage:ident, $end:ident;)*) => {
        $(#[test]
        fn $name() {
            never_runs_an_acknowledged_key_again(Damage::$damage, End::$end);
        })*
    };
}

sixteen_kinds_of_damage! {
    a_ledger_that_was_removed_after_a_kill_is_refused: Removed, Killed;
    a_ledger_that_was_truncated_after_a_kill_is_refused: TruncatedToZero, Killed;
    a_ledger_without_its_log_after_a_kill_is_refused: WithoutLog, Killed;
    a_ledger_whose_log_was_cut_in_the_middle_after_a_kill_is_refused: LogCutInTheMiddle, Killed;
    a_ledger_whose_log_was_cut_at_a_commit_after_a_kill_is_refused: LogCutAtACommit, Killed;
    a_ledger_with_a_flipped_byte_in_its_log_after_a_kill_is_refused: LogByteFlipped, Killed;
    an_old_backup_put_back_after_a_kill_is_refused: OldBackup, Killed;
    a_foreign_ledger_put_there_after_a_kill_is_refused: Foreign, Killed;
    a_ledger_that_was_removed_after_a_clean_end_is_refused: Removed, Clean;
    a_ledger_that_was_truncated_after_a_clean_end_is_refused: TruncatedToZero, Clean;
    a_ledger_without_its_log_after_a_clean_end_lacks_nothing: WithoutLog, Clean;
    a_ledger_whose_log_was_cut_in_the_middle_after_a_clean_end_lacks_nothing: LogCutInTheMiddle, Clean;
    a_ledger_whose_log_was_cut_at_a_commit_after_a_clean_end_lacks_nothing: LogCutAtACommit, Clean;
    a_ledger_with_a_flipped_byte_in_its_log_after_a_clean_end_lacks_nothing: LogByteFlipped, Clean;
    an_old_backup_put_back_after_a_clean_end_is_refused: OldBackup, Clean;
    a_foreign_ledger_put_there_after_a_clean_end_is_refused: Foreign, Clean;
}

#[test]
fn a_killed_gateway_starts_again_without_an_alarm_and_the_log_is_named_where_it_was_cut() {
    let world = acknowledged(End::Killed);
    let whole = (fs::read(ledger(&world)).unwrap(), fs::read(log(&world)).unwrap());
    damage(&world, Damage::LogByteFlipped);
    let refused = try_to_start(&world).ended(2);
    assert!(refused.stderr.contains("fails its checksum"), "{}", refused.stderr);
    assert!(refused.stderr.contains("it is at position"), "{}", refused.stderr);
    // The refusal changed nothing: with the byte restored, everything is there.
    fs::write(ledger(&world), whole.0).unwrap();
    fs::write(log(&world), whole.1).unwrap();
    let gateway = world.serve();
    for key in KEYS {
        assert_eq!(pay(&gateway, key).observation()["execution_metadata"]["idempotency_hit"], true, "{key}");
    }
}

/// Soon after a call, the database file alone is a complete ledger.
#[test]
fn the_log_is_worked_into_the_file_while_the_gateway_runs() {
    let world = company();
    let gateway = world.serve();
    pay(&gateway, "order-1").success();
    until("the file to have the payment", || {
        fs::copy(ledger(&world), world.path("alone.db")).unwrap();
        let alone = rusqlite::Connection::open(world.path("alone.db")).unwrap();
        let effects: i64 = alone.query_row("select count(*) from effects", [], |row| row.get(0)).unwrap();
        (effects == 1).then_some(())
    });
}
