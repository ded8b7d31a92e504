//! The root keys of agent credentials: a secret of ours in the notebook, made once, the same for every gateway that shares it.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{Secret, capability::RootKeys};
use servanda_gates::{JournalError, Note, NoteKind, Notebook};
use zeroize::Zeroizing;

/// By which the secret is kept.
const PURPOSE: &str = "agent-credential/roots";
/// By which credentials name it.
const KEY_ID: &str = "1";
const KEY_BYTES: usize = 32;

/// The root keys, made if there are none yet. Of two processes that make them at once, one wins.
pub async fn root_keys(notebook: &dyn Notebook) -> Result<RootKeys, JournalError> {
    let fresh = Secret::random(KEY_BYTES).map_err(|error| JournalError::new(error.to_string()))?;
    let value = format!("\"{}\"", *Zeroizing::new(URL_SAFE_NO_PAD.encode(fresh.expose())));
    let note = Note { kind: NoteKind::Secret, key: PURPOSE.to_owned(), value, expires_at: None };
    let kept = Zeroizing::new(notebook.write_first(note).await?.value);
    let written = Zeroizing::new(serde_json::from_str::<String>(&kept).unwrap_or_default());
    let not_a_key = || JournalError::new("the kept root key is not a key");
    let key = URL_SAFE_NO_PAD.decode(&*written).map(Secret::new).map_err(|_| not_a_key())?;
    RootKeys::new(KEY_ID, BTreeMap::from([(KEY_ID.to_owned(), key)])).map_err(|_| not_a_key())
}
