//! What a tool's history says, and that its hold stays in force when the store does not answer.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use proptest::prelude::*;
use serde_json::json;
use servanda_catalog::{ResolveError, ToolHold};
use servanda_contract::{Digest, Timestamp, digest::DigestDomain};
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture, effect::InMemoryEffects};
use servanda_mcp::{ClientCapabilities, Era};
use tokio::sync::Notify;

use super::{
    ObservedChange, QuarantineChange, QuarantineChangeError, QuarantineEvent, QuarantineEventKind, QuarantineHistory,
    UpstreamToolKey, change_by_person, history_of,
};
use crate::{
    Engine, EngineLimits,
    engine::Stores,
    probes::ProbeSnapshot,
    testing::{EngineTestClock, RecordingJournal, ScriptedServer, draft, snapshot_of, text},
};

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

fn key(tool: &str) -> UpstreamToolKey {
    UpstreamToolKey { upstream: "up".to_owned(), tool: tool.to_owned() }
}

fn event(what: QuarantineEventKind) -> QuarantineEvent {
    let contract_digest = Some(Digest::compute(DigestDomain::Contract, &[b"x"]));
    QuarantineEvent {
        at_ms: NOW.unix_ms(),
        by: "ada".to_owned(),
        contract: "up.echo".to_owned(),
        contract_digest,
        what,
    }
}

fn observed() -> QuarantineEvent {
    let digest = |text: &[u8]| ProbeSnapshot::Digest(Digest::compute(DigestDomain::Seen, &[text]));
    let probes = vec![ObservedChange { name: "books".to_owned(), before: digest(b"a"), after: digest(b"b") }];
    event(QuarantineEventKind::Observed { call_id: "call_1".to_owned(), probes })
}

fn blocked() -> QuarantineEvent {
    event(QuarantineEventKind::Blocked { reason: "looks odd".to_owned() })
}

fn released() -> QuarantineEvent {
    event(QuarantineEventKind::Released { reason: "was a test".to_owned() })
}

proptest! {
    /// Two tools never share a key, whatever their names are made of, and a key is read back.
    #[test]
    fn a_key_means_one_tool(one in "\\PC{0,12}", other in "\\PC{0,12}", third in "\\PC{0,12}", fourth in "\\PC{0,12}") {
        let (a, b) = (UpstreamToolKey { upstream: one, tool: other }, UpstreamToolKey { upstream: third, tool: fourth });
        prop_assert_eq!(a == b, a.to_key() == b.to_key());
        prop_assert_eq!(UpstreamToolKey::from_key(&a.to_key()), Some(a));
    }

    /// Two tools do not share a key either when a name is split at different places.
    #[test]
    fn where_a_name_is_cut_counts(name in "[a\"\\\\,\\[\\]]{1,8}", cut in 0_usize..8, other in 0_usize..8) {
        let split = |at: usize| {
            let (upstream, tool) = name.split_at(at.min(name.len()));
            UpstreamToolKey { upstream: upstream.to_owned(), tool: tool.to_owned() }
        };
        let (a, b) = (split(cut), split(other));
        prop_assert_eq!(a == b, a.to_key() == b.to_key());
    }
}

fn wish(holds: bool, seen: Option<&str>) -> QuarantineChange {
    QuarantineChange {
        tool: key("echo"),
        contract: "up.echo".to_owned(),
        contract_digest: None,
        holds,
        reason: "looked at it".to_owned(),
        by: "acme/ada".to_owned(),
        seen: seen.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_person_changes_what_they_looked_at() {
    let notebook = InMemoryNotebook::default();
    let change = async |wish| change_by_person(&notebook, wish, NOW).await;
    assert_eq!(change(wish(false, None)).await, Err(QuarantineChangeError::NotHeld));
    let nothing = history_of(&notebook, &key("echo"), NOW).await.unwrap();
    let held = change(wish(true, Some(&nothing.mark()))).await.unwrap();
    assert!(matches!(held.hold(), Some(ToolHold::Blocked { by, .. }) if by == "acme/ada"));
    assert_eq!(change(wish(false, Some(&nothing.mark()))).await, Err(QuarantineChangeError::ChangedMeanwhile));
    let released = change(wish(false, Some(&held.mark()))).await.unwrap();
    assert_eq!((released.hold(), released.events.len()), (None, 2));
    assert_eq!(history_of(&notebook, &key("echo"), NOW).await.unwrap(), released);
}

#[test]
fn the_last_event_counts() {
    let table = [
        (vec![], None),
        (vec![observed()], Some("observed")),
        (vec![blocked()], Some("blocked")),
        (vec![observed(), released()], None),
        (vec![observed(), released(), blocked()], Some("blocked")),
        (vec![blocked(), released(), observed()], Some("observed")),
    ];
    for (events, held) in table {
        let mut history = QuarantineHistory::new(key("echo"));
        for event in events {
            history.add(event);
        }
        let word = history.hold().map(|hold| match hold {
            ToolHold::Observed { .. } => "observed",
            ToolHold::Blocked { .. } => "blocked",
            other => panic!("{other:?}"),
        });
        assert_eq!(word, held);
    }
    let mut history = QuarantineHistory::new(key("echo"));
    for _ in 0..100 {
        history.add(blocked());
    }
    history.add(released());
    assert_eq!((history.events.len(), history.hold()), (32, None), "the oldest go");
}

#[test]
fn the_stored_form() {
    let mut history = QuarantineHistory::new(key("echo"));
    for event in [observed(), released(), blocked()] {
        history.add(event);
    }
    let note = history.note().unwrap();
    let stored: serde_json::Value = serde_json::from_str(&note.value).unwrap();
    let text = format!("{}\n{stored:#}\n", note.key);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/quarantine/stored_quarantine.golden.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(file).unwrap());
    assert_eq!(QuarantineHistory::from_note(&note), Some(history));
    let newer = Note { value: json!({"version": 2, "let": "go"}).to_string(), ..note };
    assert!(
        matches!(QuarantineHistory::from_note(&newer).unwrap().hold(), Some(ToolHold::Blocked { .. })),
        "what is not understood holds"
    );
}

/// A notebook that can be unavailable, and whose lists can be slow after they were read.
#[derive(Debug, Default)]
struct Moody {
    notes: InMemoryNotebook,
    away: AtomicBool,
    slow: AtomicBool,
    listed: Notify,
    go_on: Notify,
}

impl Moody {
    fn or<'a, T: Send + 'a>(
        &self,
        there: PortFuture<'a, Result<T, JournalError>>,
    ) -> PortFuture<'a, Result<T, JournalError>> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(async { Err(JournalError::new("the store is away")) });
        }
        there
    }
}

impl Notebook for Moody {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        if self.away.load(Ordering::SeqCst) {
            return Box::pin(async { Err(JournalError::new("the store is away")) });
        }
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
        self.or(self.notes.write_if(note, found, now))
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        self.or(self.notes.read(kind, key, now))
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        let listed = self.or(self.notes.list(kind, after, limit, now));
        if !self.slow.load(Ordering::SeqCst) {
            return listed;
        }
        Box::pin(async {
            let notes = listed.await;
            self.listed.notify_one();
            self.go_on.notified().await;
            notes
        })
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.erase(kind, key)
    }
}

fn engine(notebook: &Arc<Moody>) -> Engine {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |_| async { Ok(text(Era::Modern, "said")) });
    let snapshot = snapshot_of(&server, vec![draft("up", "echo", false), draft("up", "write", true)]);
    let clock = EngineTestClock::new();
    let effects = Arc::new(InMemoryEffects::new(clock.clone()));
    let notebook: Arc<dyn Notebook> = Arc::clone(notebook) as Arc<dyn Notebook>;
    let budgets = Arc::new(servanda_effects::budget::InMemoryBudgets::new(clock.clone(), effects.clone()));
    let stores = Stores {
        journal: Arc::new(RecordingJournal::default()),
        notebook,
        effects,
        budgets,
        approvals: crate::testing::approval_parts(),
    };
    Engine::from_snapshot(snapshot, stores, clock, EngineLimits::default())
}

fn held(engine: &Engine) -> BTreeMap<&'static str, bool> {
    let catalog = engine.catalog();
    let is_held =
        |tool: &str| matches!(catalog.resolve(tool, &ClientCapabilities::none()), Err(ResolveError::Held { .. }));
    BTreeMap::from(["echo", "write"].map(|tool| (tool, is_held(tool))))
}

#[tokio::test]
async fn a_store_that_is_away_releases_no_tool() {
    let notebook = Arc::new(Moody::default());
    let engine = engine(&notebook);
    notebook.away.store(true, Ordering::SeqCst);
    engine.core().quarantine.hold(key("echo"), observed()).await;
    assert_eq!(held(&engine), BTreeMap::from([("echo", true), ("write", false)]));
    assert!(engine.core().quarantine.recall().await.is_err());
    assert!(held(&engine)["echo"], "what is known stays in force");
    notebook.away.store(false, Ordering::SeqCst);
    engine.core().quarantine.recall().await.unwrap();
    assert!(held(&engine)["echo"]);
    let written = super::histories(notebook.as_ref(), engine.core().clock.now()).await.unwrap();
    assert_eq!(written[0].last(), Some(&observed()), "and it is on record now");
    // Once the event is on record, a release of any writer counts.
    super::record_event(notebook.as_ref(), &key("echo"), released(), NOW).await.unwrap();
    engine.core().quarantine.recall().await.unwrap();
    assert_eq!(held(&engine), BTreeMap::from([("echo", false), ("write", false)]));
}

/// A read of the notes that began before a violation must not release the tool for what the notes said then.
#[tokio::test]
async fn what_happens_while_the_notes_are_read_holds() {
    let notebook = Arc::new(Moody::default());
    super::record_event(notebook.as_ref(), &key("write"), blocked(), NOW).await.unwrap();
    let engine = Arc::new(engine(&notebook));
    notebook.slow.store(true, Ordering::SeqCst);
    let (inside, other) = (Arc::clone(&engine), Arc::clone(&engine));
    let recalling = tokio::spawn(async move { inside.core().quarantine.recall().await });
    notebook.listed.notified().await;
    notebook.slow.store(false, Ordering::SeqCst);
    let holding = tokio::spawn(async move { other.core().quarantine.hold(key("echo"), observed()).await });
    while !held(&engine)["echo"] {
        tokio::task::yield_now().await;
    }
    notebook.go_on.notify_one();
    recalling.await.unwrap().unwrap();
    assert_eq!(held(&engine), BTreeMap::from([("echo", true), ("write", true)]));
    holding.await.unwrap();
    engine.core().quarantine.recall().await.unwrap();
    assert_eq!(held(&engine), BTreeMap::from([("echo", true), ("write", true)]));
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_no_reason_to_begin() {
    let notebook = Arc::new(Moody::default());
    let engine = engine(&notebook);
    notebook.away.store(true, Ordering::SeqCst);
    assert!(engine.recall_quarantine().await.is_err());
}

#[tokio::test]
async fn every_page_of_notes_counts() {
    let notebook = Arc::new(Moody::default());
    for number in 0..600 {
        super::record_event(notebook.as_ref(), &key(&format!("tool{number:03}")), blocked(), NOW).await.unwrap();
    }
    super::record_event(notebook.as_ref(), &key("write"), blocked(), NOW).await.unwrap();
    let engine = engine(&notebook);
    engine.recall_quarantine().await.unwrap();
    assert_eq!(held(&engine), BTreeMap::from([("echo", false), ("write", true)]));
}
