//! Finds the API key that a person means: by its id or the beginning of it, by its label, or by its holder.

use servanda_authn::keys;
use servanda_authority::api_key::StoredKey;
use servanda_contract::Timestamp;
use servanda_effects::Notebook;

use super::trouble;
use crate::{failure::CommandFailure, screen::distinct_chars};

/// How many characters of an id are needed at least.
const PREFIX_CHARS_MIN: usize = 4;
/// How many characters of an id are shown at least.
pub(super) const ID_CHARS_MIN: usize = 8;

/// The key with this id, or with an id that begins so.
pub(crate) async fn by_id(notebook: &dyn Notebook, id: &str, now: Timestamp) -> Result<StoredKey, CommandFailure> {
    let id = id.trim();
    let id = id.strip_prefix("key:").unwrap_or(id);
    if id.len() < PREFIX_CHARS_MIN {
        return Err(CommandFailure::bad_input(format!(
            "the beginning of an id has {PREFIX_CHARS_MIN} characters or more"
        ))
        .hint("`servanda keys list` shows them"));
    }
    let known = keys::list(notebook, now).await.map_err(|error| trouble(error.into()))?;
    one(known.into_iter().filter(|key| key.id.starts_with(id)), &format!("begins with `{id}`"))
}

/// The key with this id, beginning of an id, label, or `tenant/principal`. Of several keys with one label or holder, the valid one is
/// meant, if only one is valid.
pub(crate) async fn by_name(notebook: &dyn Notebook, name: &str, now: Timestamp) -> Result<StoredKey, CommandFailure> {
    // The text is not repeated: it is a key itself, and is already in the shell's history.
    if name.starts_with("svk_") {
        return Err(CommandFailure::bad_input("--as takes the id or the label of a key, never the key itself")
            .hint("`servanda keys list` shows ids and labels; revoke a key that stood on a command line"));
    }
    let known = keys::list(notebook, now).await.map_err(|error| trouble(error.into()))?;
    let is_named = |key: &StoredKey| key.label == name || format!("{}/{}", key.tenant, key.principal) == name;
    let mut named: Vec<StoredKey> = known.into_iter().filter(is_named).collect();
    if named.len() > 1 {
        named.retain(|key| key.revoked_at.is_none() && now < key.expires_at);
    }
    if named.is_empty() {
        return by_id(notebook, name, now).await;
    }
    one(named.into_iter(), &format!("is named `{name}`"))
}

/// As much of each id as is needed to tell the keys apart.
fn beginnings(alike: &[StoredKey]) -> String {
    let chars = distinct_chars(alike.iter().map(|key| key.id.as_str()), ID_CHARS_MIN);
    let shown = alike.iter().map(|key| format!("`{}`", key.id.get(..chars).unwrap_or(&key.id)));
    shown.collect::<Vec<_>>().join(", ")
}

fn one(alike: impl Iterator<Item = StoredKey>, how: &str) -> Result<StoredKey, CommandFailure> {
    let mut alike: Vec<StoredKey> = alike.collect();
    match (alike.pop(), alike.is_empty()) {
        (Some(key), true) => Ok(key),
        (Some(key), false) => {
            alike.push(key);
            Err(CommandFailure::bad_input(format!("more than one key {how}"))
                .hint(format!("name one by its id: {}; `servanda keys list` shows them", beginnings(&alike))))
        }
        (None, _) => {
            Err(CommandFailure::bad_input("there is no API key of that id").hint("`servanda keys list` shows them"))
        }
    }
}
