//! The store keeps what was set, gives it out with the right key, and says what is wrong otherwise.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use super::*;
use crate::sealed::SealedSecret;

const CANARY: &str = "canary-s3cret-value";

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(ms)
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::from(text.to_owned())
}

fn value(store: &LocalStore, of: &str) -> Option<String> {
    store.read(&name(of)).unwrap().map(|secret| secret.as_text().unwrap().to_owned())
}

fn rewrite(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, change(text)).unwrap();
}

#[test]
fn a_secret_is_kept_and_cannot_be_read_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::new(folder.path().join("state"), None);
    assert_eq!(store.list().unwrap(), []);
    assert!(store.read(&name("crm")).unwrap().is_none());
    assert!(!store.set(&name("crm"), &secret(CANARY), at(1_000)).unwrap());
    assert!(store.set(&name("crm"), &secret("another-value"), at(2_000)).unwrap());
    store.set(&name("b"), &secret(CANARY), at(3_000)).unwrap();
    assert_eq!(value(&store, "crm").unwrap(), "another-value");
    // Another process.
    let other = LocalStore::new(folder.path().join("state"), None);
    assert_eq!(value(&other, "b").unwrap(), CANARY);
    let kept: Vec<_> = other.list().unwrap().into_iter().map(|kept| (kept.name.to_string(), kept.set_at)).collect();
    assert_eq!(kept, [("b".to_owned(), at(3_000)), ("crm".to_owned(), at(2_000))]);
    for entry in fs::read_dir(folder.path().join("state")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
        assert!(!String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).contains(CANARY), "{entry:?}");
    }
    assert!(other.remove(&name("b")).unwrap());
    assert!(!other.remove(&name("b")).unwrap());
    // The first store sees the removal although it had read the file before.
    assert!(store.read(&name("b")).unwrap().is_none());
}

/// Gateways with the same store key derive the same keys for the same purposes, and one key reveals nothing about another.
#[test]
fn keys_for_purposes_are_derived_from_the_stores_key() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let derived = |folder: &Path, purpose: &str| {
        LocalStore::new(folder, None).derived(purpose, at(1_000)).unwrap().expose().to_vec()
    };
    let roots = derived(folder.path(), "roots");
    assert_eq!(roots.len(), 32);
    assert_eq!(derived(folder.path(), "roots"), roots, "another process");
    assert_ne!(derived(folder.path(), "other"), roots);
    assert_ne!(derived(elsewhere.path(), "roots"), roots);
    let key = fs::read(folder.path().join(KEY_FILE)).unwrap();
    assert!(!key.windows(roots.len()).any(|part| part == roots));
    fs::write(folder.path().join(KEY_FILE), fs::read(elsewhere.path().join(KEY_FILE)).unwrap()).unwrap();
    assert!(LocalStore::new(folder.path(), None).derived("roots", at(2_000)).is_err(), "the key of another store");
}

#[test]
fn git_ignores_the_key_unless_there_is_a_gitignore() {
    let folder = tempfile::tempdir().unwrap();
    let ignored = |state: &Path| fs::read_to_string(state.join(".gitignore")).unwrap();
    let state = folder.path().join("new");
    LocalStore::new(&state, None).set(&name("crm"), &secret(CANARY), at(1_000)).unwrap();
    assert_eq!(ignored(&state), "*\n");
    let state = folder.path().join("known");
    fs::create_dir(&state).unwrap();
    fs::write(state.join(".gitignore"), "secrets.key\n").unwrap();
    LocalStore::new(&state, None).set(&name("crm"), &secret(CANARY), at(1_000)).unwrap();
    assert_eq!(ignored(&state), "secrets.key\n");
}

#[test]
fn an_error_says_what_is_wrong_with_the_store_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let store = || LocalStore::new(state, None);
    store().set(&name("crm"), &secret(CANARY), at(1_000)).unwrap();
    store().set(&name("two"), &secret("second-value"), at(1_000)).unwrap();
    let (file, key) = (state.join(STORE_FILE), state.join(KEY_FILE));
    let (good, good_key) = (fs::read_to_string(&file).unwrap(), fs::read(&key).unwrap());
    let fails = |store: &LocalStore| {
        let error = store.read(&name("crm")).unwrap_err();
        assert!(!error.to_string().contains(CANARY) && !error.hint().is_empty());
        error
    };

    // A secret in the place of another one.
    let parsed: serde_json::Value = serde_json::from_str(&good).unwrap();
    let mut swapped = parsed.clone();
    swapped["secrets"]["crm"] = parsed["secrets"]["two"].clone();
    fs::write(&file, swapped.to_string()).unwrap();
    assert!(matches!(fails(&store()), SecretStoreError::Tampered(name) if name == "crm"));
    // A secret with an earlier time.
    rewrite(&file, |_| good.replacen("1000", "999", 1));
    assert!(matches!(fails(&store()), SecretStoreError::Tampered(_)));
    // Cut off at every length.
    for length in 0..good.trim_end().len() {
        fs::write(&file, good.get(..length).unwrap()).unwrap();
        assert!(matches!(fails(&store()), SecretStoreError::Damaged { .. }), "{length}");
    }
    fs::write(&file, good.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    assert!(matches!(fails(&store()), SecretStoreError::Newer { version: 2, .. }));
    fs::write(&file, &good).unwrap();

    let stranger = Secret::from(STANDARD.encode([7; 32]));
    assert!(
        matches!(fails(&LocalStore::new(state, Some(stranger.clone()))), SecretStoreError::WrongKey { place } if place == KEY_VARIABLE)
    );
    let refused = LocalStore::new(state, Some(stranger)).set(&name("x"), &secret(CANARY), at(1));
    assert!(matches!(refused.unwrap_err(), SecretStoreError::WrongKey { .. }));
    assert!(matches!(fails(&LocalStore::new(state, Some(secret("short")))), SecretStoreError::BadKey { .. }));
    fs::write(&key, "no key").unwrap();
    assert!(matches!(fails(&store()), SecretStoreError::BadKey { .. }));
    fs::write(&key, &good_key).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(fails(&store()), SecretStoreError::Exposed { .. }));
    fs::remove_file(&key).unwrap();
    assert!(matches!(fails(&store()), SecretStoreError::NoKey { .. }));
    // A store that has secrets never gets a new key by itself: the old secrets would be lost silently.
    assert!(matches!(store().set(&name("x"), &secret(CANARY), at(1)).unwrap_err(), SecretStoreError::NoKey { .. }));
    assert!(!key.exists());
    assert_eq!(store().list().unwrap().len(), 2, "names are listed without a key");
}

#[test]
fn writers_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = Arc::new(folder.path().to_owned());
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let path = Arc::clone(&path);
            std::thread::spawn(move || {
                let store = LocalStore::new(&*path, None);
                for number in 0..10 {
                    store.set(&name(&format!("s-{writer}-{number}")), &secret(CANARY), at(1)).unwrap();
                    store.own("statement-key", 32, at(1)).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let store = LocalStore::new(&*path, None);
    assert_eq!(store.list().unwrap().len(), 81);
    assert_eq!(value(&store, "s-7-9").unwrap(), CANARY);
}

#[test]
fn what_the_gateway_keeps_for_itself_is_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = LocalStore::new(folder.path(), None).own("statement-key", 32, at(1)).unwrap();
    let again = LocalStore::new(folder.path(), None).own("statement-key", 32, at(2)).unwrap();
    assert_eq!(first.expose(), again.expose());
    let kept = LocalStore::new(folder.path(), None).list().unwrap();
    assert!(kept.len() == 1 && kept.iter().all(|kept| kept.name.is_own()));
}

#[test]
fn the_stored_shape_is_golden() {
    let key = StoreKey::from_bytes(&Secret::new([9; 32])).unwrap();
    let sealed = key.seal("crm-token", at(1_000), &secret(CANARY), [3; 12]).unwrap();
    let entry = SecretEntry { set_at: at(1_000), sealed };
    let document = SecretDocument { key: key.id().to_owned(), secrets: [(name("crm-token"), entry)].into() };
    let golden = include_str!("../../tests/golden/secrets.json");
    assert_eq!(String::from_utf8(document.to_bytes()).unwrap(), golden);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(STORE_FILE), golden).unwrap();
    let store = LocalStore::new(folder.path(), Some(Secret::from(STANDARD.encode([9; 32]))));
    assert_eq!(value(&store, "crm-token").unwrap(), CANARY);
    let changed = SealedSecret { nonce: [4; 12], ..document.secrets[&name("crm-token")].sealed.clone() };
    assert!(key.open("crm-token", at(1_000), &changed).is_none());
}

/// A repository may contain links and pipes in place of the store's files: nothing is read or created through them, and nothing hangs.
#[test]
fn links_and_pipes_in_the_place_of_its_files_are_refused() {
    use std::os::unix::fs::symlink;
    let secret = || Secret::from("s3cret-value".to_owned());
    for name in ["secrets.json", "secrets.key", "secrets.lock"] {
        for kind in ["pipe", "link", "nowhere"] {
            let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            std::fs::write(outside.path().join("theirs"), "mine").unwrap();
            let file = folder.path().join(name);
            match kind {
                "pipe" => {
                    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
                }
                "link" => symlink(outside.path().join("theirs"), &file).unwrap(),
                _ => symlink(outside.path().join("nowhere"), &file).unwrap(),
            }
            let store = LocalStore::new(folder.path(), None);
            let error =
                store.set(&"a".parse().unwrap(), &secret(), Timestamp::from_unix_ms(1)).unwrap_err().to_string();
            let part = if kind == "pipe" { "not a regular file" } else { "is a symbolic link to" };
            assert!(error.contains(part) && error.contains(name), "{name} {kind}: {error}");
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
            assert_eq!(std::fs::read(outside.path().join("theirs")).unwrap(), b"mine");
        }
    }
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), folder.path().join(".servanda")).unwrap();
    let store = LocalStore::new(folder.path().join(".servanda"), None);
    assert!(store.set(&"a".parse().unwrap(), &secret(), Timestamp::from_unix_ms(1)).is_err());
    assert!(store.list().is_err() && store.own("x", 8, Timestamp::from_unix_ms(1)).is_err());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0, "nothing was created there");
}
