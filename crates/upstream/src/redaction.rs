//! Keeps configured values out of the sentences we write: a server that prints its own token must not make us repeat it.
//!
//! Answers are not touched; what may be passed on of those is the contract's business.

use crate::{Transport, failure::quote};

/// Shorter values would black out ordinary words.
const SECRET_CHARS_MIN: usize = 6;

/// The values that must not be repeated.
#[derive(Clone, Default)]
pub(crate) struct Redaction {
    secrets: Vec<String>,
}

impl Redaction {
    /// Everything the configuration hands to the server.
    pub(crate) fn of(transport: &Transport) -> Self {
        let mut secrets: Vec<String> = match transport {
            Transport::Stdio { env, env_pass, .. } => {
                let passed = env_pass.iter().filter_map(|name| std::env::var(name).ok());
                env.values().cloned().chain(passed).collect()
            }
            // `Bearer x` is repeated by servers as `x`.
            Transport::Http { headers, .. } => headers
                .values()
                .flat_map(|value| [value.clone(), value.split_whitespace().last().unwrap_or_default().to_owned()])
                .collect(),
        };
        secrets.retain(|secret| secret.chars().count() >= SECRET_CHARS_MIN);
        // The longest first, so that a secret that contains another disappears as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// Foreign text for one of our sentences.
    pub(crate) fn quote(&self, text: &str) -> String {
        quote(&self.remove(text))
    }

    /// Foreign text without the secrets.
    pub(crate) fn remove(&self, text: &str) -> String {
        let mut clean = text.to_owned();
        for secret in &self.secrets {
            if clean.contains(secret) {
                clean = clean.replace(secret, "[redacted]");
            }
        }
        clean
    }
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Redaction").field("secrets_count", &self.secrets.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn configured_values_are_not_repeated() {
        let redaction = Redaction::of(&Transport::Http {
            url: "http://localhost/".to_owned(),
            headers: BTreeMap::from([("authorization".to_owned(), "Bearer tok_123456".to_owned())]),
        });
        assert_eq!(redaction.quote("bad token tok_123456!"), "bad token [redacted]!");
        assert!(!format!("{redaction:?}").contains("tok_"));

        let redaction = Redaction::of(&Transport::Stdio {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::from([("A".to_owned(), "abcdef".to_owned()), ("B".to_owned(), "xabcdefx".to_owned())]),
            env_pass: Vec::new(),
            cwd: None,
        });
        assert_eq!(redaction.quote("xabcdefx abcdef"), "[redacted] [redacted]");
    }

    #[test]
    fn short_values_are_left() {
        let redaction = Redaction::of(&Transport::Stdio {
            command: String::new(),
            args: Vec::new(),
            env: BTreeMap::from([("DEBUG".to_owned(), "1".to_owned())]),
            env_pass: Vec::new(),
            cwd: None,
        });
        assert_eq!(redaction.quote("1 error"), "1 error");
    }
}
