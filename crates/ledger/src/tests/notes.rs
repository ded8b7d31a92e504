//! Notes that are written on a condition: what every notebook does, and races between gateways.

use std::sync::Arc;

use futures_util::future::join_all;
use servanda_contract::Timestamp;
use servanda_effects::{Note, NoteKind, Notebook};

use super::kept::Kept;

const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

fn note(value: &str, expires_ms: Option<u64>) -> Note {
    let expires_at = expires_ms.map(Timestamp::from_unix_ms);
    Note { kind: NoteKind::Quarantine, key: "a\0b".to_owned(), value: value.to_owned(), expires_at }
}

/// What every notebook has to do, the durable ones and the one in memory.
pub(super) async fn written_on_a_condition(notebook: &dyn Notebook) {
    let write_if = async |value: &str, found: Option<&str>| {
        notebook.write_if(note(value, None), found.map(str::to_owned), NOW).await.unwrap()
    };
    let there = async || {
        let found = notebook.read(NoteKind::Quarantine, "a\0b", NOW).await.unwrap();
        found.map(|note| note.value)
    };
    assert!(!write_if("1", Some("")).await && there().await.is_none(), "there is none yet");
    assert!(write_if("1", None).await);
    assert!(!write_if("2", None).await, "there is one");
    assert!(!write_if("2", Some("0")).await, "it is another");
    assert_eq!(there().await.as_deref(), Some("1"));
    assert!(write_if("2\0", Some("1")).await);
    assert!(!write_if("3", Some("1")).await, "it changed since then");
    assert_eq!(there().await.as_deref(), Some("2\0"));
    // What has expired counts as absent, whether the store still has it or not.
    assert!(notebook.write_if(note("over", Some(1_000)), Some("2\0".to_owned()), NOW).await.unwrap());
    assert!(!write_if("4", Some("over")).await && there().await.is_none());
    assert!(write_if("4", None).await);
    assert_eq!(there().await.as_deref(), Some("4"));
}

/// Many change the same note through two gateways. Each reads it and adds its word: no word is lost.
pub(super) async fn raced_for(kept: Kept) {
    let other = kept.replica().await;
    let gateways = [kept.clone(), other];
    let writers = (0..24_usize).map(|number| {
        let gateway = gateways[number % 2].clone();
        tokio::spawn(async move { add_word(&gateway, &format!("w{number:02}")).await })
    });
    for attempts in join_all(writers).await {
        assert!(attempts.unwrap() >= 1);
    }
    let found = kept.notebook().read(NoteKind::Quarantine, "a\0b", NOW).await.unwrap().unwrap();
    let mut words: Vec<&str> = found.value.split_whitespace().collect();
    words.sort_unstable();
    let expected: Vec<String> = (0..24).map(|number| format!("w{number:02}")).collect();
    assert_eq!(words, expected, "every word is there once");
}

/// Adds a word to the note. Returns how many attempts it took.
async fn add_word(gateway: &Kept, word: &str) -> usize {
    for attempt in 1..=1_000 {
        let found = gateway.notebook().read(NoteKind::Quarantine, "a\0b", NOW).await.unwrap().map(|note| note.value);
        let value = format!("{} {word}", found.as_deref().unwrap_or_default());
        if gateway.notebook().write_if(note(&value, None), found, NOW).await.unwrap() {
            return attempt;
        }
    }
    panic!("{word} was never written");
}

/// In memory there is one notebook for all gateways.
pub(super) async fn in_memory() {
    let notebook = Arc::new(servanda_effects::InMemoryNotebook::default());
    written_on_a_condition(notebook.as_ref()).await;
    raced_for(Kept::in_memory()).await;
}
