//! What is kept, where, and that nobody else can read it.

use servanda_authority::Secret;
use servanda_gates::FleetingNotebook;

use super::*;
use crate::{sealing::KEY_BYTES, testing::TokenServer};

const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

fn with_key(notebook: &Arc<dyn Notebook>, byte: u8) -> LoginBook {
    LoginBook::new(Arc::clone(notebook), Arc::new(SealingKey::new(&Secret::new([byte; KEY_BYTES])).unwrap()))
}

fn whose(upstream: &str, tenant: &str, principal: &str) -> Whose {
    Whose { upstream: upstream.to_owned(), tenant: tenant.to_owned(), principal: principal.to_owned() }
}

#[tokio::test]
async fn t13_what_is_kept_is_sealed_and_for_one_user() {
    let notebook: Arc<dyn Notebook> = Arc::new(FleetingNotebook::default());
    let (book, other) = (with_key(&notebook, 1), with_key(&notebook, 2));
    let server = TokenServer::start(|_, _| (500, serde_json::json!({}))).await;
    let ada = whose("crm", "acme", "ada");
    book.keep(&ada, &server.login("acc-s3cret", Some("ref-s3cret"))).await.unwrap();
    let notes = notebook.list(NoteKind::Login, "", 10, NOW).await.unwrap();
    assert!(!format!("{notes:?}").contains("s3cret"));
    assert!(matches!(other.login(&ada, NOW).await, Err(BookError::Sealed)));
    // Moved to another user's place, it is of no use there.
    let moved = Note { key: whose("crm", "acme", "eve").key(), ..notes[0].clone() };
    notebook.write(moved).await.unwrap();
    assert!(matches!(book.login(&whose("crm", "acme", "eve"), NOW).await, Err(BookError::Sealed)));
    let listed = book.logins(NOW).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|(whose, login)| (whose.principal.as_str(), login.is_some())).collect();
    assert_eq!(shown, [("ada", true), ("eve", false)]);
    assert!(!format!("{listed:?} {book:?}").contains("s3cret"));
}

#[test]
fn no_name_looks_like_two() {
    let names = [whose("a", "b", "c"), whose("a\",\"b", "c", ""), whose("a", "b\",\"c", ""), whose("a/b", "c", "")];
    let keys: std::collections::BTreeSet<_> = names.iter().map(Whose::key).collect();
    assert_eq!(keys.len(), names.len());
    assert!(names.iter().all(|name| Whose::read(&name.key()).as_ref() == Some(name)));
}

#[tokio::test]
async fn one_asks_for_the_next_token_until_its_time_is_over() {
    let notebook: Arc<dyn Notebook> = Arc::new(FleetingNotebook::default());
    let book = with_key(&notebook, 1);
    let ada = whose("crm", "acme", "ada");
    let later = Timestamp::from_unix_ms(NOW.unix_ms() + REFRESH_MS_MAX);
    assert!(book.claim(&ada, 0, "one", NOW).await.unwrap());
    assert!(!book.claim(&ada, 0, "two", NOW).await.unwrap());
    assert!(book.claim(&ada, 1, "two", NOW).await.unwrap(), "of another generation");
    assert!(book.claim(&ada, 0, "two", later).await.unwrap(), "the first one is gone");
    book.release(&ada, 1).await.unwrap();
    assert!(book.claim(&ada, 1, "three", NOW).await.unwrap());
}
