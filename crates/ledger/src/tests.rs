//! The suite every store has to pass. It is written against [`Ledger`] and its reader; a second store runs the same file.

use servanda_contract::{
    CallId, CallRecord, Caller, Digest, Timestamp,
    digest::Domain,
    record::{Outcome, RECORD_VERSION},
};
use servanda_gates::{Journal as _, Note, NoteKind, Notebook};

use super::{CallQuery, Ledger, LedgerError, Reader};

fn record(call_id: &str, outcome: Outcome, received_ms: u64) -> CallRecord {
    CallRecord {
        record_version: RECORD_VERSION,
        call_id: CallId::from(call_id.to_owned()),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        caller: Caller::local(),
        tool: "company__void_invoice".to_owned(),
        contract: None,
        arguments_digest: Digest::of(Domain::Arguments, &[b"{}"]),
        proposal_digest: None,
        received_at: Timestamp::from_unix_ms(received_ms),
        dispatched_at: None,
        finished_at: None,
        deadline_ms: None,
        verdicts: Vec::new(),
        outcome,
        class: None,
        refusal: None,
        answer_digest: None,
        continues: None,
        task_id: None,
        effect_id: None,
        attempts: None,
    }
}

fn temporary() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/ledger.db");
    (folder, path)
}

#[tokio::test]
async fn what_is_durable_is_read_back_equal() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let dispatched = record("call_1", Outcome::Dispatching, 1);
    ledger.dispatching(dispatched.clone()).await.unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.find(&CallQuery::Id("call_1".to_owned()), 2).unwrap(), [dispatched]);
    let finished = record("call_1", Outcome::Completed, 1);
    ledger.finished(finished.clone(), None, true).await.unwrap();
    assert_eq!(reader.find(&CallQuery::Latest, 1).unwrap(), [finished]);
    assert_eq!(reader.count().unwrap(), 1);
}

#[tokio::test]
async fn a_finished_call_is_never_overwritten() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    ledger.finished(record("call_1", Outcome::Completed, 1), None, true).await.unwrap();
    ledger.finished(record("call_1", Outcome::Refused, 1), None, true).await.unwrap();
    ledger.dispatching(record("call_1", Outcome::Dispatching, 1)).await.unwrap();
    let found = ledger.reader().unwrap().find(&CallQuery::Latest, 1).unwrap();
    assert_eq!(found[0].outcome, Outcome::Completed);
}

/// A call that became a task is finished when somebody learns how the task ended, and then for good.
#[tokio::test]
async fn a_task_ends_once() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    for outcome in [Outcome::Dispatching, Outcome::TaskCreated, Outcome::Completed, Outcome::Unknown] {
        ledger.finished(record("call_1", outcome, 1), None, true).await.unwrap();
    }
    let found = ledger.reader().unwrap().find(&CallQuery::Latest, 1).unwrap();
    assert_eq!(found[0].outcome, Outcome::Completed);
}

#[tokio::test]
async fn close_keeps_what_nobody_waited_for() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    for number in 0..1000 {
        ledger.finished(record(&format!("call_{number:04}"), Outcome::Refused, number), None, false).await.unwrap();
    }
    ledger.close().await;
    assert_eq!(Reader::open(&path).unwrap().count().unwrap(), 1000);
    let late = ledger.finished(record("call_late", Outcome::Refused, 1), None, false).await;
    assert!(late.is_err(), "a closed ledger must not pretend to keep a record");
}

#[tokio::test]
async fn the_beginning_of_an_id_finds_every_call_that_has_it() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    for call_id in ["call_ab1", "call_ab2", "call_b"] {
        ledger.finished(record(call_id, Outcome::Refused, 1), None, true).await.unwrap();
    }
    let reader = ledger.reader().unwrap();
    let found = |text: &str| reader.find(&CallQuery::Id(text.to_owned()), 10).unwrap().len();
    assert_eq!((found("call_a"), found("call_ab2"), found("call_"), found("call_z"), found("%")), (2, 1, 3, 0, 0));
}

#[tokio::test]
async fn quarantined_answers_are_kept_apart_and_bounded() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let body = bytes::Bytes::from(vec![b'x'; 3 << 20]);
    ledger.finished(record("call_1", Outcome::Quarantined, 1), Some(body), true).await.unwrap();
    let kept = ledger.reader().unwrap().quarantined("call_1").unwrap().unwrap();
    assert_eq!((kept.bytes_total, kept.body.len()), (3 << 20, 1 << 20));
    assert_eq!(ledger.reader().unwrap().quarantined("call_2").unwrap(), None);
}

#[tokio::test]
async fn a_ledger_that_was_deleted_keeps_nothing_and_says_so() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    ledger.dispatching(record("call_1", Outcome::Dispatching, 1)).await.unwrap();
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    let refused = ledger.dispatching(record("call_2", Outcome::Dispatching, 1)).await.unwrap_err();
    assert!(refused.to_string().contains("deleted or replaced"), "{refused}");
    assert_eq!(ledger.lost_count(), 1);
}

#[tokio::test]
async fn a_file_that_another_process_holds_is_waited_for() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let waiting = ledger.dispatching(record("call_1", Outcome::Dispatching, 1));
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        other.execute_batch("commit").unwrap();
    };
    let (kept, ()) = tokio::join!(waiting, release);
    kept.unwrap();
    assert_eq!(ledger.reader().unwrap().count().unwrap(), 1);
}

#[test]
fn a_newer_database_is_refused() {
    let (_folder, path) = temporary();
    drop(Ledger::open(&path).unwrap());
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Ledger::open(&path).unwrap_err();
    assert!(matches!(error, LedgerError::Newer { found: 99, known: 2 }), "{error}");
    assert!(Reader::open(&path).is_err());
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let (_folder, path) = temporary();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, "x".repeat(4096)).unwrap();
    assert!(matches!(Ledger::open(&path).unwrap_err(), LedgerError::Open { .. }));
}

#[test]
fn commits_are_durable_against_power_loss() {
    let (_folder, path) = temporary();
    let connection = rusqlite::Connection::open(std::path::Path::new(":memory:")).unwrap();
    super::configure(&connection).unwrap();
    let level: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    assert_eq!(level, 2, "synchronous must be FULL: NORMAL may forget acknowledged effects");
    let ledger = Ledger::open(&path).unwrap();
    drop(ledger);
    let mode: String =
        rusqlite::Connection::open(&path).unwrap().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

fn note(kind: NoteKind, key: &str, value: &str, expires_ms: Option<u64>) -> Note {
    let expires_at = expires_ms.map(Timestamp::from_unix_ms);
    Note { kind, key: key.to_owned(), value: value.to_owned(), expires_at }
}

/// What both notebooks have to do, the lasting one and the fleeting one.
async fn keeps_notes(notebook: &dyn Notebook) {
    let now = Timestamp::from_unix_ms(1_000);
    let read = async |kind: NoteKind, key: &str| {
        let note = notebook.read(kind, key, now).await.unwrap();
        note.map(|note| note.value)
    };
    assert_eq!(read(NoteKind::Session, "a").await, None);
    notebook.write(note(NoteKind::Session, "a", "1", Some(1_001))).await.unwrap();
    notebook.write(note(NoteKind::Task, "a", "2", None)).await.unwrap();
    assert_eq!(read(NoteKind::Session, "a").await.as_deref(), Some("1"));
    assert_eq!(read(NoteKind::Task, "a").await.as_deref(), Some("2"), "kinds never meet");

    notebook.write(note(NoteKind::Session, "a", "3", Some(1_000))).await.unwrap();
    assert_eq!(read(NoteKind::Session, "a").await, None, "an expired note is as good as none");

    let first = notebook.write_first(note(NoteKind::Secret, "key", "mine", None)).await.unwrap();
    let second = notebook.write_first(note(NoteKind::Secret, "key", "yours", None)).await.unwrap();
    assert_eq!((first.value.as_str(), second.value.as_str()), ("mine", "mine"), "two processes agree");

    notebook.erase(NoteKind::Task, "a").await.unwrap();
    notebook.erase(NoteKind::Task, "never").await.unwrap();
    assert_eq!(read(NoteKind::Task, "a").await, None);
}

#[tokio::test]
async fn notes_are_kept_by_either_notebook() {
    keeps_notes(&servanda_gates::FleetingNotebook::default()).await;
    let (_folder, path) = temporary();
    keeps_notes(&Ledger::open(&path).unwrap()).await;
}

#[tokio::test]
async fn notes_outlive_the_process_and_are_forgotten_when_they_may_be() {
    let (_folder, path) = temporary();
    let ledger = Ledger::open(&path).unwrap();
    for (key, expires_ms) in [("short", Some(10)), ("long", Some(20)), ("ever", None)] {
        ledger.write(note(NoteKind::Session, key, "x", expires_ms)).await.unwrap();
    }
    ledger.forget_expired(Timestamp::from_unix_ms(10)).await.unwrap();
    // Not closed: what was written is durable without that.
    let again = Ledger::open(&path).unwrap();
    let epoch = Timestamp::from_unix_ms(0);
    for (key, kept) in [("short", false), ("long", true), ("ever", true)] {
        assert_eq!(again.read(NoteKind::Session, key, epoch).await.unwrap().is_some(), kept, "{key}");
    }
}

#[tokio::test]
async fn a_ledger_of_the_first_version_is_brought_up_to_date() {
    let (_folder, path) = temporary();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(&path).unwrap();
    old.execute_batch(include_str!("../sql/0001_calls.sql")).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    drop(old);
    let ledger = Ledger::open(&path).unwrap();
    ledger.write(note(NoteKind::Era, "x", "modern", None)).await.unwrap();
    ledger.finished(record("call_1", Outcome::Completed, 1), None, true).await.unwrap();
    assert_eq!(ledger.reader().unwrap().count().unwrap(), 1);
}
