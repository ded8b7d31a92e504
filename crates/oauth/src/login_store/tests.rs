//! What is stored, where, and that it cannot be read without the key.

use servanda_authority::{Secret, sealing::KEY_BYTES};
use servanda_effects::InMemoryNotebook;

use super::*;
use crate::testing::{TokenServer, UnreliableNotebook};

const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

fn with_key(notebook: &Arc<dyn Notebook>, byte: u8) -> LoginStore {
    LoginStore::new(
        Arc::clone(notebook),
        Arc::new(SealingKey::new(LOGIN_PURPOSE, &Secret::new([byte; KEY_BYTES])).unwrap()),
    )
}

fn whose(upstream: &str, tenant: &str, principal: &str) -> LoginKey {
    LoginKey { upstream: upstream.to_owned(), tenant: tenant.to_owned(), principal: principal.to_owned() }
}

async fn login() -> Login {
    TokenServer::start(|_, _| (500, serde_json::json!({}))).await.login("token-0", Some("refresh-0"))
}

#[tokio::test]
async fn t13_what_is_kept_is_sealed_and_for_one_user() {
    let notebook: Arc<dyn Notebook> = Arc::new(InMemoryNotebook::default());
    let (login_store, other) = (with_key(&notebook, 1), with_key(&notebook, 2));
    let server = TokenServer::start(|_, _| (500, serde_json::json!({}))).await;
    let ada = whose("crm", "acme", "ada");
    login_store.save(&ada, &server.login("acc-s3cret", Some("ref-s3cret"))).await.unwrap();
    let notes = notebook.list(NoteKind::Login, "", 10, NOW).await.unwrap();
    assert!(!format!("{notes:?}").contains("s3cret"));
    assert!(matches!(other.login(&ada, NOW).await, Err(LoginStoreError::Sealed)));
    // A note that was moved to another user's key cannot be opened there.
    let moved = Note { key: whose("crm", "acme", "eve").key(), ..notes[0].clone() };
    notebook.write(moved).await.unwrap();
    assert!(matches!(login_store.login(&whose("crm", "acme", "eve"), NOW).await, Err(LoginStoreError::Sealed)));
    let listed = login_store.logins(NOW).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|(whose, login)| (whose.principal.as_str(), login.is_some())).collect();
    assert_eq!(shown, [("ada", true), ("eve", false)]);
    assert!(!format!("{listed:?} {login_store:?}").contains("s3cret"));
}

#[test]
fn no_name_looks_like_two() {
    let names = [whose("a", "b", "c"), whose("a\",\"b", "c", ""), whose("a", "b\",\"c", ""), whose("a/b", "c", "")];
    let keys: std::collections::BTreeSet<_> = names.iter().map(LoginKey::key).collect();
    assert_eq!(keys.len(), names.len());
    assert!(names.iter().all(|name| LoginKey::read(&name.key()).as_ref() == Some(name)));
}

#[tokio::test]
async fn one_asks_for_the_next_token_until_its_time_is_over() {
    let notebook: Arc<dyn Notebook> = Arc::new(InMemoryNotebook::default());
    let login_store = with_key(&notebook, 1);
    let ada = whose("crm", "acme", "ada");
    let later = Timestamp::from_unix_ms(NOW.unix_ms() + REFRESH_MS_MAX);
    let login = login().await;
    let generation_1 = login.without_refresh_token();
    assert!(login_store.claim(&ada, &login, "one", NOW).await.unwrap().is_some());
    assert!(login_store.claim(&ada, &login, "two", NOW).await.unwrap().is_none());
    let next =
        login_store.claim(&ada, &generation_1, "two", NOW).await.unwrap().expect("a claim for another generation");
    assert!(login_store.claim(&ada, &login, "two", later).await.unwrap().is_some(), "the first process is gone");
    assert!(
        login_store.claim(&ada, &login, "three", later).await.unwrap().is_none(),
        "the second process has the claim"
    );
    login_store.release(next).await.unwrap();
    assert!(login_store.claim(&ada, &generation_1, "three", NOW).await.unwrap().is_some());
    let mut anew = login.clone();
    anew.issued_at = later;
    assert!(login_store.claim(&ada, &anew, "four", later).await.unwrap().is_some(), "a claim for a new login");
}

#[tokio::test]
async fn one_of_two_processes_takes_over() {
    let notebook: Arc<dyn Notebook> = Arc::new(UnreliableNotebook::default());
    let (one, two) = (with_key(&notebook, 1), with_key(&notebook, 1));
    let ada = whose("crm", "acme", "ada");
    let later = Timestamp::from_unix_ms(NOW.unix_ms() + REFRESH_MS_MAX);
    let login = login().await;
    one.claim(&ada, &login, "gone", NOW).await.unwrap().unwrap();
    // Both see that the claim is over before either has acted.
    let claims = tokio::join!(one.claim(&ada, &login, "one", later), two.claim(&ada, &login, "two", later));
    let claims = [claims.0.unwrap().is_some(), claims.1.unwrap().is_some()];
    assert_eq!(claims.iter().filter(|claimed| **claimed).count(), 1, "{claims:?}");
}
