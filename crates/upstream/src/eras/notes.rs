//! Remembers over restarts which era a server spoke, under a digest of how the server is reached.
//!
//! A note only says which era to try first; the server's answer decides. Only the names of environment variables and headers go into the
//! digest, not their values.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_contract::{
    Timestamp,
    digest::{Digest, DigestDomain},
};
use servanda_effects::{Note, NoteKind, Notebook};
use servanda_mcp::Era;

use crate::Transport;

/// How long writing a note may keep a connection waiting.
const WRITE_MS_MAX: u64 = 5_000;

const MODERN: &str = r#"{"era":"modern"}"#;
const LEGACY: &str = r#"{"era":"legacy"}"#;

/// The note of one server.
#[derive(Debug)]
pub(crate) struct EraNotes {
    key: String,
    notebook: Arc<dyn Notebook>,
    /// The era that is already written, so that nothing is written twice.
    written: Mutex<Option<Era>>,
}

impl EraNotes {
    pub(crate) fn new(transport: &Transport, notebook: Arc<dyn Notebook>) -> Self {
        Self { key: key(transport), notebook, written: Mutex::new(None) }
    }

    /// The noted era. An unreadable note counts as none.
    pub(crate) async fn read(&self) -> Option<Era> {
        // Such notes never expire, so the time does not matter.
        let note = match self.notebook.read(NoteKind::Era, &self.key, Timestamp::from_unix_ms(0)).await {
            Ok(note) => note?,
            Err(error) => {
                tracing::debug!(%error, "the server's saved era could not be read");
                return None;
            }
        };
        let era = match note.value.as_str() {
            MODERN => Era::Modern,
            LEGACY => Era::Legacy,
            _ => return None,
        };
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = Some(era);
        Some(era)
    }

    /// Notes the era, unless it is noted already. If that fails, the next start has to probe.
    pub(crate) async fn write(&self, era: Era) {
        if self.written.lock().unwrap_or_else(PoisonError::into_inner).replace(era) == Some(era) {
            return;
        }
        let value = match era {
            Era::Modern => MODERN,
            Era::Legacy => LEGACY,
        };
        let note = Note { kind: NoteKind::Era, key: self.key.clone(), value: value.to_owned(), expires_at: None };
        match tokio::time::timeout(Duration::from_millis(WRITE_MS_MAX), self.notebook.write(note)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the server's era could not be saved"),
            Err(_) => tracing::debug!("the server's era could not be saved in time"),
        }
    }
}

fn key(transport: &Transport) -> String {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    // Each list begins with its length, so that the name of a variable cannot be taken for an argument.
    let add_list = |parts: &mut Vec<Vec<u8>>, list: Vec<&String>| {
        parts.push(list.len().to_string().into_bytes());
        parts.extend(list.into_iter().map(|text| text.clone().into_bytes()));
    };
    match transport {
        Transport::Stdio { command, args, env, env_pass, cwd } => {
            let cwd = cwd.as_deref().map_or(&[][..], |cwd| cwd.as_os_str().as_encoded_bytes());
            parts.extend([b"stdio".to_vec(), command.clone().into_bytes(), cwd.to_vec()]);
            add_list(&mut parts, args.iter().collect());
            add_list(&mut parts, env.keys().collect());
            add_list(&mut parts, env_pass.iter().collect());
        }
        Transport::Http { url, headers } => {
            parts.extend([b"http".to_vec(), url.clone().into_bytes()]);
            add_list(&mut parts, headers.keys().collect());
        }
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Digest::compute(DigestDomain::Transport, &parts).to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use servanda_effects::InMemoryNotebook;

    use super::*;

    fn stdio(args: &[&str], token: &str) -> Transport {
        Transport::Stdio {
            command: "server".to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: BTreeMap::from([("TOKEN".to_owned(), token.to_owned())]),
            env_pass: Vec::new(),
            cwd: None,
        }
    }

    fn http(url: &str, token: &str) -> Transport {
        let headers = BTreeMap::from([("Authorization".to_owned(), token.to_owned())]);
        Transport::Http { url: url.to_owned(), headers }
    }

    #[test]
    fn a_server_is_known_by_how_it_is_reached_and_not_by_its_secrets() {
        assert_eq!(key(&stdio(&["a"], "one")), key(&stdio(&["a"], "other")));
        assert_eq!(key(&http("http://a/", "one")), key(&http("http://a/", "other")));
        let keys = [
            key(&stdio(&["a"], "t")),
            key(&stdio(&["b"], "t")),
            key(&stdio(&["a", "b"], "t")),
            key(&stdio(&["ab"], "t")),
            key(&stdio(&["a", "1", "TOKEN"], "t")),
            key(&http("http://a/", "t")),
            key(&http("http://b/", "t")),
        ];
        let different: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }

    #[tokio::test]
    async fn a_note_outlives_its_writer_and_nonsense_is_none() {
        let notebook: Arc<dyn Notebook> = Arc::new(InMemoryNotebook::default());
        let notes = |transport: &Transport| EraNotes::new(transport, Arc::clone(&notebook));
        let transport = stdio(&[], "t");
        assert_eq!(notes(&transport).read().await, None);
        for era in [Era::Modern, Era::Legacy] {
            notes(&transport).write(era).await;
            assert_eq!(notes(&transport).read().await, Some(era));
        }
        assert_eq!(notes(&stdio(&["x"], "t")).read().await, None);
        let key = key(&transport);
        let note = Note { kind: NoteKind::Era, key, value: "{}".to_owned(), expires_at: None };
        notebook.write(note).await.unwrap();
        assert_eq!(notes(&transport).read().await, None);
    }
}
