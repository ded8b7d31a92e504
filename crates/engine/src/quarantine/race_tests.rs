//! Another gateway or an operator changes a quarantine between the reading and the writing of a change: nothing is lost, and a person's
//! change is not made to what they did not see.

use std::sync::Mutex;

use servanda_contract::Timestamp;
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture};

use super::{
    QuarantineChange, QuarantineChangeError, QuarantineEvent, QuarantineEventKind, UpstreamToolKey, change_by_person,
    history_of, record_event,
};

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

/// A notebook in which others write an event after every read, while they have some.
#[derive(Debug, Default)]
struct Overtaken {
    notes: InMemoryNotebook,
    others: Mutex<Vec<QuarantineEvent>>,
}

impl Notebook for Overtaken {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.write(note)
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        self.notes.write_first(note)
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.notes.write_if(note, found, now)
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            let read = self.notes.read(kind, &key, now).await?;
            let other = self.others.lock().unwrap().pop();
            if let Some(other) = other {
                record_event(&self.notes, &tool(), other, now).await?;
            }
            Ok(read)
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        self.notes.list(kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.erase(kind, key)
    }
}

fn tool() -> UpstreamToolKey {
    UpstreamToolKey { upstream: "up".to_owned(), tool: "echo".to_owned() }
}

fn event(by: &str, what: QuarantineEventKind) -> QuarantineEvent {
    let (by, contract) = (by.to_owned(), "up.echo".to_owned());
    QuarantineEvent { at_ms: NOW.unix_ms(), by, contract, contract_digest: None, what }
}

fn blocked(by: &str) -> QuarantineEvent {
    event(by, QuarantineEventKind::Blocked { reason: "looks odd".to_owned() })
}

fn released(by: &str) -> QuarantineEvent {
    event(by, QuarantineEventKind::Released { reason: "was a test".to_owned() })
}

fn wish(holds: bool, seen: Option<String>) -> QuarantineChange {
    let (contract, by) = ("up.echo".to_owned(), "acme/ada".to_owned());
    QuarantineChange { tool: tool(), contract, contract_digest: None, holds, reason: "so".to_owned(), by, seen }
}

async fn who(notebook: &Overtaken) -> Vec<String> {
    let history = history_of(&notebook.notes, &tool(), NOW).await.unwrap();
    history.events.into_iter().map(|event| event.by).collect()
}

#[tokio::test]
async fn an_event_is_added_to_what_others_wrote_meanwhile() {
    let notebook = Overtaken::default();
    *notebook.others.lock().unwrap() = vec![blocked("third"), released("second"), blocked("first")];
    record_event(&notebook, &tool(), blocked("own"), NOW).await.unwrap();
    assert_eq!(who(&notebook).await, ["first", "second", "third", "own"]);
}

#[tokio::test]
async fn a_person_who_looked_at_a_page_is_told_that_others_were_faster() {
    let notebook = Overtaken::default();
    let seen = history_of(&notebook.notes, &tool(), NOW).await.unwrap().mark();
    *notebook.others.lock().unwrap() = vec![blocked("another")];
    let changed = change_by_person(&notebook, wish(true, Some(seen)), NOW).await;
    assert_eq!(changed, Err(QuarantineChangeError::ChangedMeanwhile));
    assert_eq!(who(&notebook).await, ["another"], "nothing was written over it");
}

#[tokio::test]
async fn a_command_is_made_to_what_others_left() {
    let notebook = Overtaken::default();
    record_event(&notebook.notes, &tool(), blocked("first"), NOW).await.unwrap();
    *notebook.others.lock().unwrap() = vec![released("another")];
    let changed = change_by_person(&notebook, wish(false, None), NOW).await;
    assert_eq!(changed, Err(QuarantineChangeError::NotHeld), "somebody else released it already");
    *notebook.others.lock().unwrap() = vec![blocked("another")];
    change_by_person(&notebook, wish(true, None), NOW).await.unwrap();
    assert_eq!(who(&notebook).await, ["first", "another", "another", "acme/ada"]);
}

/// Somebody who is always faster ends in an error and not in an endless loop.
#[tokio::test]
async fn a_change_gives_up_after_a_while() {
    let notebook = Overtaken::default();
    *notebook.others.lock().unwrap() = (0..200).map(|number| blocked(&number.to_string())).collect();
    record_event(&notebook, &tool(), blocked("own"), NOW).await.unwrap_err();
    let changed = change_by_person(&notebook, wish(true, None), NOW).await;
    assert!(matches!(changed, Err(QuarantineChangeError::Store(_))), "{changed:?}");
    assert!(!who(&notebook).await.contains(&"own".to_owned()));
}
