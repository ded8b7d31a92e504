//! The store of passkeys: counters, revocation, and notes that do not belong where they stand.

use std::sync::atomic::Ordering;

use serde_json::json;
use servanda_authority::{
    CredentialId,
    passkey::{StoredPasskey, passkey_handle},
};
use servanda_console::PersonPasskeys as _;
use servanda_contract::time::Clock as _;
use servanda_effects::{Note, NoteKind, Notebook as _};

use crate::{passkeys, testing::AuthnFixture};

const COSE: &str = "pAEBAycgBiFYIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB";

fn passkey(principal: &str, id: &str, key: &CredentialId) -> StoredPasskey {
    serde_json::from_value(json!({
        "version": 1, "tenant": "acme", "principal": principal, "name": "laptop", "key": key, "created_at": 1_800_000_000_000_u64,
        "passkey": {
            "credential_id": id, "public_key": COSE, "sign_count": 3, "rp_id": "localhost", "is_backup_eligible": false,
        },
    }))
    .unwrap()
}

async fn fixture_with_key() -> (AuthnFixture, CredentialId) {
    let fixture = AuthnFixture::new(Vec::new());
    let (id, _) = fixture.key("acme", "ada", &["servanda:console"]).await;
    (fixture, CredentialId::read(&format!("key:{id}")).unwrap())
}

#[tokio::test]
async fn a_counter_is_seen_once_and_the_greatest_counts() {
    let (fixture, key) = fixture_with_key().await;
    let (store, now) = (fixture.store.as_ref(), fixture.clock.now());
    let (own, other) = (passkey("ada", "AAAA", &key), passkey("ada", "BBBB", &key));
    assert_eq!(passkeys::sign_count(store, &own, now).await.unwrap(), 3, "the one of the registration");
    for (count, is_first, greatest) in [
        (9, true, 9),
        (9, false, 9),
        (10, true, 10),
        (7, true, 10),
        (0, true, 10),
        (0, true, 10),
        (u32::MAX, true, u32::MAX),
    ] {
        assert_eq!(passkeys::note_count(store, &own, count, now).await.unwrap(), is_first, "{count}");
        assert_eq!(passkeys::sign_count(store, &own, now).await.unwrap(), greatest, "{count}");
    }
    assert_eq!(passkeys::sign_count(store, &other, now).await.unwrap(), 3, "each has its own");
    let left = store.list(NoteKind::PasskeyUse, "", 100, now).await.unwrap();
    assert_eq!(left.len(), 1, "only the greatest is kept: {left:?}");
}

#[tokio::test]
async fn a_challenge_is_answered_once() {
    let (fixture, _) = fixture_with_key().await;
    let (store, now) = (fixture.store.as_ref(), fixture.clock.now());
    assert!(passkeys::is_first_answer(store, "aa", now).await.unwrap());
    assert!(!passkeys::is_first_answer(store, "aa", now).await.unwrap());
    assert!(passkeys::is_first_answer(store, "ab", now).await.unwrap());
}

#[tokio::test]
async fn a_revoked_passkey_is_not_found_and_not_registered_again() {
    let (fixture, key) = fixture_with_key().await;
    let (store, now) = (fixture.store.as_ref(), fixture.clock.now());
    let (own, handle) = (passkey("ada", "AAAA", &key), passkey_handle("acme", "ada"));
    assert!(passkeys::register(store, &own, now).await.unwrap());
    assert!(!passkeys::register(store, &StoredPasskey { name: "again".to_owned(), ..own.clone() }, now).await.unwrap());
    let find = async || fixture.authenticator.find_passkey(&handle, "AAAA").await.unwrap();
    assert_eq!(find().await.unwrap().name, "laptop");
    passkeys::revoke(store, &own, "root", now).await.unwrap();
    assert!(find().await.is_none() && passkeys::list(store, now).await.unwrap().is_empty());
    assert!(!passkeys::register(store, &own, now).await.unwrap());
    // Written back by a request that was under way.
    let value = serde_json::to_string(&own).unwrap();
    store.write(Note { kind: NoteKind::Passkey, key: own.store_key(), value, expires_at: None }).await.unwrap();
    assert!(find().await.is_none() && passkeys::of_person(store, &handle, now).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_note_that_does_not_belong_where_it_stands_proves_nothing() {
    let (fixture, key) = fixture_with_key().await;
    let (store, now) = (fixture.store.as_ref(), fixture.clock.now());
    let own = passkey("ada", "AAAA", &key);
    let text = serde_json::to_string(&own).unwrap();
    let (mallory, bob) = (passkey_handle("acme", "mallory"), passkey_handle("acme", "bob"));
    for (at, value) in [
        (StoredPasskey::store_key_of(&mallory, "AAAA"), text.clone()),
        (StoredPasskey::store_key_of(&own.handle(), "BBBB"), text.clone()),
        (
            StoredPasskey::store_key_of(&bob, "AAAA"),
            text.replace("ada", "bob").replace("\"version\":1", "\"version\":2"),
        ),
        (own.store_key(), "{}".to_owned()),
    ] {
        store.write(Note { kind: NoteKind::Passkey, key: at, value, expires_at: None }).await.unwrap();
    }
    assert!(passkeys::list(store, now).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_passkey_without_its_key_does_not_count() {
    let (fixture, key) = fixture_with_key().await;
    let (store, now) = (fixture.store.as_ref(), fixture.clock.now());
    let (agents, _) = fixture.key("acme", "ada", &["company:read"]).await;
    let agents = CredentialId::read(&format!("key:{agents}")).unwrap();
    let of_local_mode = StoredPasskey { key: None, ..passkey("ada", "CCCC", &key) };
    for stored in [passkey("ada", "AAAA", &key), passkey("ada", "BBBB", &agents), of_local_mode] {
        assert!(passkeys::register(store, &stored, now).await.unwrap());
    }
    let counting = async || fixture.authenticator.passkeys_of("acme", "ada").await.map(|passkeys| passkeys.len());
    assert_eq!(counting().await, Ok(1), "one is under a key of agents, one under none");
    // A key has one person: a passkey of another one under it signs nobody in.
    let bobs = passkey("bob", "AAAA", &key);
    assert!(passkeys::register(store, &bobs, now).await.unwrap());
    assert_eq!(fixture.authenticator.person_of_passkey(&bobs).await, Ok(None));
    assert!(fixture.authenticator.person_of_passkey(&passkey("ada", "AAAA", &key)).await.unwrap().is_some());
    fixture.clock.pass_ms(86_400_000);
    assert_eq!(counting().await, Ok(0), "the key has expired");
    fixture.store.away.store(true, Ordering::SeqCst);
    assert!(fixture.authenticator.find_passkey(&passkey_handle("acme", "ada"), "AAAA").await.is_err());
}
