//! How attempts begin, last and end.

use std::sync::atomic::{AtomicU64, Ordering};

use servanda_effects::InMemoryNotebook;

use super::*;

#[derive(Debug)]
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

fn fixture() -> (SignInAttempts, Arc<InMemoryNotebook>, Arc<SetClock>) {
    let (notebook, clock) = (Arc::new(InMemoryNotebook::default()), Arc::new(SetClock(AtomicU64::new(1_000_000))));
    (SignInAttempts::new(notebook.clone(), clock.clone()), notebook, clock)
}

fn request(next: &str) -> AttemptRequest<'_> {
    let redirect = "https://gateway.test/sign-in/oidc/answer".to_owned();
    AttemptRequest { next, redirect, settings: "s".to_owned(), asks_again: true }
}

#[tokio::test]
async fn an_attempt_is_found_by_its_browser_and_used_once() {
    let (attempts, notebook, _) = fixture();
    let open = attempts.begin(request("/calls")).unwrap();
    assert!(attempts.find(&open.cookie_text()).await.unwrap().is_none(), "nothing is stored yet");
    attempts.keep(&open).await.unwrap();
    let found = attempts.find(&open.cookie_text()).await.unwrap().unwrap();
    let texts = |open: &OpenAttempt| {
        let ProviderAttempt { state, nonce, verifier, .. } = &open.attempt;
        [state, nonce, verifier].map(|secret| secret.as_text().unwrap().to_owned())
    };
    assert_eq!(texts(&found), texts(&open));
    assert_eq!((found.next.as_str(), found.attempt.asked_again_at), ("/calls", Some(open.begun_at)));
    let note = notebook.read(NoteKind::SignIn, &key_of(&open.token), open.begun_at).await.unwrap().unwrap();
    for secret in texts(&open).iter().chain([&open.cookie_text()]) {
        assert!(
            secret.len() == 43 && !format!("{note:?} {open:?}").contains(secret.as_str()),
            "the store has no secret"
        );
    }
    let [state, nonce, verifier] = texts(&open);
    assert!(state != nonce && nonce != verifier && verifier != state);
    assert!(attempts.use_up(&found).await.unwrap());
    assert!(!attempts.use_up(&open).await.unwrap(), "once");
    assert!(attempts.find(&open.cookie_text()).await.unwrap().is_none());
}

#[tokio::test]
async fn an_attempt_ends_after_ten_minutes() {
    let (attempts, notebook, clock) = fixture();
    let open = attempts.begin(request("/")).unwrap();
    attempts.keep(&open).await.unwrap();
    // Also in a store that forgets late.
    let key = key_of(&open.token);
    let note = notebook.read(NoteKind::SignIn, &key, open.begun_at).await.unwrap().unwrap();
    notebook.write(Note { expires_at: None, ..note }).await.unwrap();
    clock.0.fetch_add(ATTEMPT_MS_MAX - 1, Ordering::SeqCst);
    assert!(attempts.find(&open.cookie_text()).await.unwrap().is_some());
    clock.0.fetch_add(1, Ordering::SeqCst);
    assert!(attempts.find(&open.cookie_text()).await.unwrap().is_none());
}

#[tokio::test]
async fn the_number_of_attempts_is_bounded() {
    let (attempts, notebook, clock) = fixture();
    let mut cookies = Vec::new();
    for _ in 0..=ATTEMPTS_MAX {
        clock.0.fetch_add(1, Ordering::SeqCst);
        let open = attempts.begin(request("/")).unwrap();
        attempts.keep(&open).await.unwrap();
        cookies.push(open.cookie_text());
    }
    assert!(attempts.find(&cookies[0]).await.unwrap().is_none(), "the oldest made room");
    assert!(attempts.find(&cookies[1]).await.unwrap().is_some());
    assert!(attempts.find(&cookies[ATTEMPTS_MAX]).await.unwrap().is_some());
    let notes = notebook.list(NoteKind::SignIn, "", 10_000, clock.now()).await.unwrap();
    assert_eq!(notes.len(), ATTEMPTS_MAX);
}

#[tokio::test]
async fn what_was_not_given_out_finds_nothing() {
    let (attempts, _, _) = fixture();
    let open = attempts.begin(request("/")).unwrap();
    attempts.keep(&open).await.unwrap();
    let cookie = open.cookie_text();
    for wrong in ["", "x", &format!("{cookie}A"), &"A".repeat(43), &"!".repeat(43), &key_of(&open.token)] {
        assert!(attempts.find(wrong).await.unwrap().is_none(), "{wrong}");
    }
}
