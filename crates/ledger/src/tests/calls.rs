//! What every ledger has to do with records and notes: the file and the shared database.

use std::{future::Future, pin::Pin};

use servanda_contract::{Timestamp, record::Outcome};
use servanda_effects::{Journal as _, Note, NoteKind, Notebook};

use super::{call_lists, kept::Kept, notes, samples::record};
use crate::{CallFilter, CallQuery, Ledger, Retention};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("what is durable is read back equal", |kept| Box::pin(read_back(kept))),
    ("a finished call is never overwritten", |kept| Box::pin(never_overwritten(kept))),
    ("a task ends once", |kept| Box::pin(a_task_ends_once(kept))),
    ("closing keeps records that no caller waited for", |kept| Box::pin(closing(kept))),
    ("the beginning of an id finds every call that has it", |kept| Box::pin(beginnings(kept))),
    ("every condition of a list, alone and page by page", |kept| Box::pin(call_lists::conditions(kept))),
    ("calls under way are listed among the others, once", |kept| Box::pin(call_lists::under_way(kept))),
    ("records that are older than the index are listed", |kept| Box::pin(call_lists::older_than_the_index(kept))),
    ("a list stops after so many records and says where", |kept| Box::pin(call_lists::stops(kept))),
    ("quarantined answers are kept apart and bounded", |kept| Box::pin(quarantine(kept))),
    ("strange names are kept", |kept| Box::pin(strange(kept))),
    ("notes are kept", |kept| Box::pin(async move { keeps_notes(kept.ledger()).await })),
    ("notes are written on a condition", |kept| {
        Box::pin(async move { notes::written_on_a_condition(kept.ledger()).await })
    }),
    ("many gateways change a note and nothing is lost", |kept| Box::pin(notes::raced_for(kept))),
    ("notes outlive the process and are forgotten when they expire", |kept| Box::pin(forgetting(kept))),
];

async fn read_back(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let dispatched = record("call_1", Outcome::Dispatching, 1);
    ledger.record_finished(dispatched.clone(), None, true).await.unwrap();
    assert_eq!(reader.find(&CallQuery::Id("call_1".to_owned()), 2).await.unwrap(), [dispatched]);
    let finished = record("call_1", Outcome::Completed, 1);
    ledger.record_finished(finished.clone(), None, true).await.unwrap();
    assert_eq!(reader.find(&CallQuery::Latest, 1).await.unwrap(), [finished]);
    ledger.record_finished(record("call_2", Outcome::Refused, 2), None, true).await.unwrap();
    let listed = reader.calls(&CallFilter::default(), 10).await.unwrap().calls;
    let recent: Vec<String> = listed.into_iter().map(|call| call.call_id).collect();
    assert_eq!(recent, ["call_2", "call_1"]);
    assert_eq!(reader.count().await.unwrap(), 2);
}

async fn outcome(ledger: &Ledger) -> Outcome {
    ledger.reader().await.unwrap().find(&CallQuery::Latest, 1).await.unwrap()[0].outcome
}

async fn never_overwritten(kept: Kept) {
    let ledger = kept.ledger();
    ledger.record_finished(record("call_1", Outcome::Completed, 1), None, true).await.unwrap();
    ledger.record_finished(record("call_1", Outcome::Refused, 1), None, true).await.unwrap();
    ledger.record_finished(record("call_1", Outcome::Dispatching, 1), None, true).await.unwrap();
    assert_eq!(outcome(ledger).await, Outcome::Completed);
    // The same in one batch.
    let finished = |outcome| ledger.record_finished(record("call_2", outcome, 2), None, true);
    let ends = tokio::join!(finished(Outcome::Dispatching), finished(Outcome::Completed), finished(Outcome::Unknown));
    assert!(matches!(ends, (Ok(()), Ok(()), Ok(()))), "{ends:?}");
    assert_eq!(outcome(ledger).await, Outcome::Completed);
}

/// A call that became a task is finished when the gateway learns how the task ended, and then for good.
async fn a_task_ends_once(kept: Kept) {
    let ledger = kept.ledger();
    for outcome in [Outcome::Dispatching, Outcome::TaskCreated, Outcome::Completed, Outcome::Unknown] {
        ledger.record_finished(record("call_1", outcome, 1), None, true).await.unwrap();
    }
    assert_eq!(outcome(ledger).await, Outcome::Completed);
}

async fn closing(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    for number in 0..1000 {
        ledger
            .record_finished(record(&format!("call_{number:04}"), Outcome::Refused, number), None, false)
            .await
            .unwrap();
    }
    ledger.close().await;
    assert_eq!(reader.count().await.unwrap(), 1000);
    let late = ledger.record_finished(record("call_late", Outcome::Refused, 1), None, false).await;
    assert!(late.is_err(), "a closed ledger must not pretend to keep a record");
}

async fn beginnings(kept: Kept) {
    for call_id in ["call_ab1", "call_ab2", "call_b"] {
        kept.ledger().record_finished(record(call_id, Outcome::Refused, 1), None, true).await.unwrap();
    }
    let reader = kept.reader().await;
    for (text, count) in [("call_a", 2), ("call_ab2", 1), ("call_", 3), ("call_z", 0), ("%", 0), ("\0", 0)] {
        let found = reader.find(&CallQuery::Id(text.to_owned()), 10).await.unwrap();
        assert_eq!(found.len(), count, "{text}");
    }
}

async fn quarantine(kept: Kept) {
    let body = bytes::Bytes::from(vec![b'x'; 3 << 20]);
    kept.ledger().record_finished(record("call_1", Outcome::Quarantined, 1), Some(body), true).await.unwrap();
    let reader = kept.reader().await;
    let found = reader.quarantined("call_1").await.unwrap().unwrap();
    assert_eq!((found.bytes_total, found.body.len()), (3 << 20, 1 << 20));
    assert_eq!(reader.quarantined("call_2").await.unwrap(), None);
}

/// A client may call any name; that call is recorded too.
async fn strange(kept: Kept) {
    let mut strange = record("call_1", Outcome::Refused, 1);
    strange.tool = "no\0such'tool\u{1f980}".to_owned();
    kept.ledger().record_finished(strange.clone(), None, true).await.unwrap();
    assert_eq!(kept.reader().await.find(&CallQuery::Latest, 1).await.unwrap(), [strange]);
}

fn note(kind: NoteKind, key: &str, value: &str, expires_ms: Option<u64>) -> Note {
    let expires_at = expires_ms.map(Timestamp::from_unix_ms);
    Note { kind, key: key.to_owned(), value: value.to_owned(), expires_at }
}

/// What every notebook has to do, the durable ones and the one in memory.
pub(super) async fn keeps_notes(notebook: &dyn Notebook) {
    let now = Timestamp::from_unix_ms(1_000);
    let read = async |kind: NoteKind, key: &str| {
        let note = notebook.read(kind, key, now).await.unwrap();
        note.map(|note| note.value)
    };
    assert_eq!(read(NoteKind::Session, "a").await, None);
    notebook.write(note(NoteKind::Session, "a", "1", Some(1_001))).await.unwrap();
    notebook.write(note(NoteKind::Task, "a", "2", None)).await.unwrap();
    assert_eq!(read(NoteKind::Session, "a").await.as_deref(), Some("1"));
    assert_eq!(read(NoteKind::Task, "a").await.as_deref(), Some("2"), "kinds do not share keys");

    notebook.write(note(NoteKind::Session, "a", "3", Some(1_000))).await.unwrap();
    assert_eq!(read(NoteKind::Session, "a").await, None, "an expired note is as good as none");

    let first = notebook.write_first(note(NoteKind::Secret, "key", "mine", None)).await.unwrap();
    let second = notebook.write_first(note(NoteKind::Secret, "key", "yours", None)).await.unwrap();
    assert_eq!((first.value.as_str(), second.value.as_str()), ("mine", "mine"), "two processes agree");

    notebook.write(note(NoteKind::Era, "a\0b'", "c\0d", None)).await.unwrap();
    assert_eq!(read(NoteKind::Era, "a\0b'").await.as_deref(), Some("c\0d"));

    for (key, expires_ms) in [("c", None), ("a", None), ("over", Some(1_000)), ("b", Some(1_001))] {
        notebook.write(note(NoteKind::Delivery, key, key, expires_ms)).await.unwrap();
    }
    let list = async |after: &str, limit| {
        let notes = notebook.list(NoteKind::Delivery, after, limit, now).await.unwrap();
        notes.into_iter().map(|note| (note.key, note.value)).collect::<Vec<_>>()
    };
    let both = |key: &str| (key.to_owned(), key.to_owned());
    assert_eq!(list("", 2).await, [both("a"), both("b")], "a page in the order of keys");
    assert_eq!(list("b", 2).await, [both("c")], "and the next, without what has expired");
    assert_eq!(list("c", 2).await, []);

    notebook.erase(NoteKind::Task, "a").await.unwrap();
    notebook.erase(NoteKind::Task, "never").await.unwrap();
    assert_eq!(read(NoteKind::Task, "a").await, None);
}

async fn forgetting(kept: Kept) {
    let ledger = kept.ledger();
    for (key, expires_ms) in [("short", Some(10)), ("long", Some(20)), ("ever", None)] {
        ledger.write(note(NoteKind::Session, key, "x", expires_ms)).await.unwrap();
    }
    let forever = Retention { records_ms: None, tombstones_ms: None };
    ledger.prune(forever, Timestamp::from_unix_ms(10)).await.unwrap();
    // Not closed: what was written is durable without closing.
    let again = kept.replica().await;
    let epoch = Timestamp::from_unix_ms(0);
    for (key, there) in [("short", false), ("long", true), ("ever", true)] {
        assert_eq!(again.ledger().read(NoteKind::Session, key, epoch).await.unwrap().is_some(), there, "{key}");
    }
}
