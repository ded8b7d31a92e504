//! No call without a record: a store is stopped under load and comes back, and every call that was answered is in the verifiable log. The log
//! on stderr tells it in a few lines. Clients note what they were answered, and an oracle of this file reads the log's own bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    cluster::Cluster,
    contract::{count_effects, pay_invoice},
    gateway::Gateway,
    http::Question,
    world::{World, until},
};

const CLIENTS: usize = 4;
/// Between two calls of a client, so that no limit of refused calls is reached.
const PAUSE: Duration = Duration::from_millis(20);
/// Calls that must be answered while the store is away before it may come back.
const READS_MEANWHILE_MIN: usize = 20;
/// What a refusal says of a call that was not read, and therefore has no record.
const NOT_READ: &str = "cannot put calls on record at present";

/// What clients were answered.
#[derive(Debug, Default)]
struct Answers {
    /// Calls that were answered, and how: they must be on record.
    answered: Mutex<BTreeMap<String, &'static str>>,
    reads: AtomicUsize,
    unread: AtomicUsize,
    enough: AtomicBool,
}

impl Answers {
    /// Calls until told to stop. Every other client changes the company's books, and the others read.
    fn keep_calling(&self, agent: &Agent, client: usize) {
        let is_read = client % 2 == 1;
        for number in 0.. {
            if self.enough.load(Ordering::SeqCst) {
                return;
            }
            let reply = if is_read {
                agent.call("company__count_effects", json!({}))
            } else {
                let arguments = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
                let key = format!("key-{client}-{number}");
                agent.ask(
                    "tools/call",
                    json!({ "name": "company__pay_invoice", "arguments": arguments,
                        "_meta": { "servanda/idempotency-key": key } }),
                )
            };
            self.note(&reply, is_read);
            thread::sleep(PAUSE);
        }
    }

    fn note(&self, reply: &Reply, is_read: bool) {
        if reply.result()["isError"] == true {
            let refusal = reply.refusal();
            if refusal["message"].as_str().is_some_and(|message| message.contains(NOT_READ)) {
                self.unread.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let id = refusal["call_id"].as_str().unwrap().to_owned();
            self.answered.lock().unwrap().insert(id, "refused");
            return;
        }
        if is_read {
            self.reads.fetch_add(1, Ordering::SeqCst);
        }
        self.answered.lock().unwrap().insert(reply.call_id(), if is_read { "read" } else { "paid" });
    }
}

/// Every id of a call in the bytes of a copied log.
fn calls_in(folder: &Path) -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = fs::read(entry.path()).unwrap();
            for (at, _) in bytes.windows(5).enumerate().filter(|(_, window)| *window == b"call_") {
                let id = bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_');
                found.insert(id.map(|byte| char::from(*byte)).collect());
            }
        }
    }
    found
}

fn is_ready(gateway: &Gateway) -> bool {
    Question::page("/readyz").ask(gateway.address).status == 200
}

/// Runs clients while `away` takes the store away and `back` brings it back. Everything that was answered must be in the log.
/// `is_refused` says that the store refuses writes while it is away; otherwise it lets them wait.
fn nothing_answered_is_missing(world: &World, is_refused: bool, away: impl FnOnce(), back: impl FnOnce()) {
    let gateway = world.serve();
    until("the gateway to be ready", || is_ready(&gateway).then_some(()));
    let answers = Arc::new(Answers::default());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (answers, agent) = (answers.clone(), gateway.modern());
            thread::spawn(move || answers.keep_calling(&agent, client))
        })
        .collect();
    until("calls before the outage", || (answers.reads.load(Ordering::SeqCst) > READS_MEANWHILE_MIN).then_some(()));
    let before = answers.reads.load(Ordering::SeqCst);
    away();
    until("reads during the outage", || {
        (answers.reads.load(Ordering::SeqCst) > before + READS_MEANWHILE_MIN).then_some(())
    });
    until("calls to be refused unread", || (answers.unread.load(Ordering::SeqCst) > CLIENTS).then_some(()));
    back();
    until("the gateway to be ready again", || is_ready(&gateway).then_some(()));
    let after = answers.reads.load(Ordering::SeqCst);
    until("reads after the outage", || {
        (answers.reads.load(Ordering::SeqCst) > after + READS_MEANWHILE_MIN).then_some(())
    });
    answers.enough.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    gateway.terminate();
    let said = gateway.into_said();
    world.run(&["audit", "copy", "copy"]).ended(0);
    let key = world.run(&["audit", "key"]).ended(0).stdout;
    world.run(&["audit", "verify", "copy", "--key", key.trim()]).ended(0);
    let recorded = calls_in(&world.path("copy/tile/entries"));
    let answered = answers.answered.lock().unwrap();
    let missing: Vec<_> = answered.iter().filter(|(id, _)| !recorded.contains(*id)).collect();
    assert!(
        missing.is_empty(),
        "{} of {} answered calls are not in the log: {missing:?}\n{said}",
        missing.len(),
        answered.len()
    );
    for kind in ["read", "paid"] {
        assert!(answered.values().any(|how| *how == kind), "no call was {kind}");
    }
    told_briefly(&said, is_refused);
}

/// An outage is one line, and one with a count when it is over; and no line is repeated for calls.
fn told_briefly(said: &str, is_refused: bool) {
    let lines = |text: &str| said.lines().filter(|line| line.contains(text)).count();
    let begun = lines("the ledger's store does not take writes");
    assert!(begun == lines("takes writes again") && (begun == 1 || begun == 0 && !is_refused), "{said}");
    assert_eq!(lines("calls are refused unread"), 1, "{said}");
    assert_eq!(lines("calls are read again"), 1, "{said}");
    let problems: Vec<&str> = said.lines().filter(|line| line.contains("ERROR") || line.contains("WARN")).collect();
    assert!(problems.len() <= 20, "{} lines for one outage:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn nothing_answered_is_missing_after_postgresql_was_stopped() {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::company([pay_invoice(), count_effects()]).unpinned();
    world.change_config(|config| {
        config["ledger"] = json!(cluster.url("primary"));
        config["accepts_lost_commits"] = Value::Bool(true);
    });
    nothing_answered_is_missing(&world, true, || cluster.crash("primary"), || cluster.start_server("primary"));
}

#[test]
fn nothing_answered_is_missing_after_the_file_was_away() {
    let world = World::company([pay_invoice(), count_effects()]).unpinned();
    let (file, elsewhere) = (world.path(".servanda/ledger.db"), world.path(".servanda/elsewhere.db"));
    nothing_answered_is_missing(
        &world,
        true,
        || fs::rename(&file, &elsewhere).unwrap(),
        || fs::rename(&elsewhere, &file).unwrap(),
    );
}

#[test]
fn nothing_answered_is_missing_after_the_file_was_locked() {
    let world = World::company([pay_invoice(), count_effects()]).unpinned();
    let file = world.path(".servanda/ledger.db");
    let other: Mutex<Option<rusqlite::Connection>> = Mutex::default();
    let lock = || {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.busy_timeout(Duration::from_secs(20)).unwrap();
        connection.execute_batch("begin immediate").unwrap();
        *other.lock().unwrap() = Some(connection);
    };
    nothing_answered_is_missing(&world, false, lock, || drop(other.lock().unwrap().take()));
}
