//! Backups that are made while a gateway writes, and what restoring one means for keys and for the verifiable log; and that `migrate
//! --dry-run` changes nothing. With real processes, on both stores.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    damage::{company, pay, try_to_start},
    gateway::Gateway,
    world::{Ran, World, until},
};

/// A client that pays until it is told to stop.
struct Payer {
    stop: Arc<AtomicBool>,
    paid: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Payer {
    fn start(gateway: &Gateway) -> Self {
        let (stop, paid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count, agent) = (stop.clone(), paid.clone(), gateway.modern());
        let thread = thread::spawn(move || {
            for number in 0.. {
                if told.load(Ordering::SeqCst) {
                    return;
                }
                let arguments = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
                let params = json!({ "name": "company__pay_invoice", "arguments": arguments,
                    "_meta": { "servanda/idempotency-key": format!("payer-{number}") } });
                agent.ask("tools/call", params).success();
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { stop, paid, thread }
    }

    /// Waits until it has paid some more.
    fn pays_on(&self) {
        let before = self.paid.load(Ordering::SeqCst);
        until("more payments", || (self.paid.load(Ordering::SeqCst) > before + 2).then_some(()));
    }

    fn stops(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

/// Makes a backup while a client pays. What was acknowledged before is in it; what came later is not. A copy of the log is made at the end.
fn backed_up_under_load(world: &World, backup: impl FnOnce()) {
    let gateway = world.serve();
    pay(&gateway, "order-1").success();
    let payer = Payer::start(&gateway);
    payer.pays_on();
    until("the log to be signed", || (world.run(&["audit", "--json"]).code == Some(0)).then_some(()));
    backup();
    payer.pays_on();
    payer.stops();
    pay(&gateway, "order-2").success();
    gateway.terminate();
    drop(gateway);
    world.run(&["audit", "copy", "latest"]).ended(0);
}

fn verify(world: &World, folder: &str, since: Option<&str>) -> Ran {
    let key = world.run(&["audit", "key"]).ended(0).stdout;
    let since: Vec<&str> = since.map(|since| vec!["--since", since]).unwrap_or_default();
    world.run(&[&["audit", "verify", folder, "--key", key.trim()], since.as_slice()].concat())
}

/// After restoring and accepting: the copy's keys are known, later ones are unknown, and whoever has the latest checkpoint can tell that the
/// log is an older one, also when it has grown beyond it.
fn an_older_log_is_noticed(world: &World) {
    let effects = world.effects();
    world.run(&["audit", "copy", "restored"]).ended(0);
    verify(world, "restored", None).ended(0);
    let older = verify(world, "restored", Some("latest/checkpoint"));
    assert!(older.code != Some(0) && older.stderr.contains("leaves and has"), "{older:?}");
    verify(world, "latest", Some("restored/checkpoint")).ended(0);
    let leaves = |folder: &str| {
        let verified = verify(world, folder, None).ended(0).stdout;
        verified.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let before = leaves("latest");
    let gateway = world.serve();
    assert_eq!(pay(&gateway, "order-1").observation()["execution_metadata"]["idempotency_hit"], true);
    assert_eq!(pay(&gateway, "order-2").refusal()["effect"], "unknown");
    assert_eq!(world.effects(), effects, "nothing was paid again");
    let grown = until("the log to grow beyond the lost one", || {
        gateway.modern().call("company__count_effects", json!({})).success();
        world.run(&["audit", "copy", "grown"]).ended(0);
        Some(leaves("grown")).filter(|leaves| *leaves > before)
    });
    let forked = verify(world, "grown", Some("latest/checkpoint"));
    assert!(forked.code != Some(0) && forked.stderr.contains("does not hold"), "{grown} leaves: {forked:?}");
    verify(world, "grown", Some("restored/checkpoint")).ended(0);
}

#[test]
fn a_file_that_was_copied_under_load_is_restored_and_the_log_tells_it() {
    let world = company();
    backed_up_under_load(&world, || drop(world.run(&["ledger", "backup", "copy.db"]).ended(0)));
    world.run(&["ledger", "restore", "copy.db", "--evidence", "a trial"]).ended(0);
    an_older_log_is_noticed(&world);
}

/// A company whose ledger is in a database.
fn company_in(cluster: &Cluster) -> World {
    let world = company();
    world.change_config(|config| {
        config["ledger"] = json!(cluster.url("primary"));
        // It does not sync to its disk.
        config["accepts_lost_commits"] = Value::Bool(true);
    });
    world
}

#[test]
fn a_database_that_was_dumped_under_load_is_restored_and_the_log_tells_it() {
    let Some(cluster) = Cluster::start() else { return };
    let world = company_in(&cluster);
    let (url, dump) = (cluster.url("primary"), cluster.data("ledger.dump"));
    backed_up_under_load(&world, || cluster.run("pg_dump", &["--format=custom", "--file", &dump, &url]));
    cluster.run("pg_restore", &["--clean", "--if-exists", "--dbname", &url, &dump]);
    let refused = try_to_start(&world).ended(2);
    assert!(refused.stderr.contains("servanda ledger adopt"), "{}", refused.stderr);
    world.run(&["ledger", "adopt", "--evidence", "restored from the dump"]).ended(0);
    an_older_log_is_noticed(&world);
}

/// Everything that a dump says about a database.
fn dumped(cluster: &Cluster) -> String {
    let file = cluster.data("whole.sql");
    cluster.run("pg_dump", &["--file", &file, &cluster.url("primary")]);
    let whole = fs::read_to_string(file).unwrap();
    // Newer versions write a random word.
    whole.lines().filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict")).collect()
}

#[test]
fn a_dry_run_says_what_it_would_do_to_a_database_and_changes_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    let world = company_in(&cluster);
    let empty = dumped(&cluster);
    let told = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(told.stdout.contains("there is no ledger yet"), "{}", told.stdout);
    assert_eq!(dumped(&cluster), empty);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = [
        include_str!("../../../ledger/sql/postgres/0001_calls.sql"),
        include_str!("../../../ledger/sql/postgres/0002_notes.sql"),
        "create table servanda_schema (version integer primary key, applied_at timestamptz not null default now())",
        "insert into servanda_schema (version) values (1), (2)",
        "insert into notes (kind, key, value) values ('name', 'kept', 'as it was')",
    ];
    runtime.block_on(cluster.sql(&first.join(";\n")));
    let before = dumped(&cluster);
    let told = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(
        told.stdout.contains("would be brought from version 2 to") && told.stdout.contains("pg_dump"),
        "{}",
        told.stdout
    );
    assert_eq!(world.run(&["migrate", "--dry-run", "--json"]).ended(0).json()["found"], 2);
    assert_eq!(dumped(&cluster), before);
    assert!(!world.has("servanda.position"), "nothing beside it either");
    world.run(&["migrate"]).ended(0);
    let after = dumped(&cluster);
    assert!(after != before && after.contains("617320697420776173"), "the row is kept, in hexadecimal");
    let up_to_date = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(up_to_date.stdout.contains("which is what this servanda needs"), "{}", up_to_date.stdout);
    assert_eq!(dumped(&cluster), after);
}

/// Every file of a folder, byte for byte.
fn files(world: &World) -> Vec<(String, Vec<u8>)> {
    let folder = fs::read_dir(world.path(".servanda")).unwrap().flatten();
    let read = |entry: fs::DirEntry| (entry.file_name().display().to_string(), fs::read(entry.path()).unwrap());
    let mut files: Vec<_> = folder.map(read).collect();
    files.sort();
    files
}

#[test]
fn a_dry_run_says_what_it_would_do_to_a_file_and_changes_no_byte() {
    let world = company();
    fs::create_dir_all(world.path(".servanda")).unwrap();
    let none = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(none.stdout.contains("there is no ledger yet") && files(&world).is_empty(), "{}", none.stdout);
    let ledger = rusqlite::Connection::open(world.path(".servanda/ledger.db")).unwrap();
    ledger.execute_batch(include_str!("../../../ledger/sql/sqlite/0001_calls.sql")).unwrap();
    ledger.pragma_update(None, "user_version", 1).unwrap();
    drop(ledger);
    let before = files(&world);
    let told = world.run(&["migrate", "--dry-run"]).ended(0);
    assert!(told.stdout.contains("would be brought from version 1 to"), "{}", told.stdout);
    assert_eq!(files(&world), before);
    assert!(!world.has("servanda.position"), "nothing beside it either");
}
