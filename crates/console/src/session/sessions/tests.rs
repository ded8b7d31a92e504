//! What a session's notes withstand.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{InMemoryNotebook, Note, NoteKind, Notebook as _};

use super::{AuthenticatedPerson, SessionToken, Sessions, used_key};
use crate::sign_in::SignInMethod;

#[derive(Debug)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

fn fixture() -> (Sessions, Arc<InMemoryNotebook>, Arc<SetClock>) {
    let (notebook, clock) = (Arc::new(InMemoryNotebook::default()), Arc::new(SetClock(AtomicU64::new(1_000_000))));
    (Sessions::new(notebook.clone(), clock.clone()), notebook, clock)
}

fn person(expires_at_ms: u64) -> AuthenticatedPerson {
    AuthenticatedPerson {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        groups: BTreeSet::new(),
        method: SignInMethod::OneTimeLink,
        proved_at: Timestamp::from_unix_ms(1_000_000),
        expires_at: Timestamp::from_unix_ms(expires_at_ms),
    }
}

fn copy(token: &SessionToken) -> SessionToken {
    SessionToken::read(&token.text()).unwrap()
}

#[tokio::test]
async fn use_that_is_noted_after_sign_out_does_not_bring_a_session_back() {
    let (sessions, notebook, clock) = fixture();
    let token = sessions.open(person(u64::MAX)).await.unwrap();
    let (record, _) = sessions.read(&token, clock.now()).await.unwrap().unwrap();
    sessions.close(&token).await.unwrap();
    sessions.note_use(&token, &record, clock.now()).await.unwrap();
    assert!(sessions.find(copy(&token)).await.unwrap().is_none());
    assert!(
        notebook.read(NoteKind::ConsoleSession, &used_key(&token.store_key()), clock.now()).await.unwrap().is_some()
    );
}

#[tokio::test]
async fn a_session_ends_with_the_credential_that_opened_it() {
    let (sessions, _, clock) = fixture();
    let token = sessions.open(person(1_060_000)).await.unwrap();
    assert!(sessions.find(copy(&token)).await.unwrap().is_some());
    clock.0.store(1_060_000, Ordering::SeqCst);
    assert!(sessions.find(copy(&token)).await.unwrap().is_none());
}

#[tokio::test]
async fn a_record_of_another_version_opens_nothing() {
    let (sessions, notebook, clock) = fixture();
    let token = sessions.open(person(u64::MAX)).await.unwrap();
    let note = notebook.read(NoteKind::ConsoleSession, &token.store_key(), clock.now()).await.unwrap().unwrap();
    let value = note.value.replace("\"version\":1", "\"version\":2");
    assert_ne!(value, note.value);
    notebook.write(Note { value, ..note }).await.unwrap();
    assert!(sessions.find(token).await.unwrap().is_none());
}
