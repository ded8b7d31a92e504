//! The behavioural identity that a contract declares: what kind of computation a tool is, which its schema cannot say.
//!
//! This module has only the declaration and its hash; `servanda-identity` checks the declaration against the tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    kinds::BehaviourKind,
    vocabulary::{Action, ContentType, Mutability, OutputDomain},
};

/// Mutability, action and output domain, plus the content type if those three cannot tell two tools apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Behaviour {
    /// Whether it changes anything.
    pub mutability: Mutability,
    /// What it does.
    pub action: Action,
    /// What it returns.
    pub output_domain: OutputDomain,
    /// Text or binary, where that tells two tools apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
    /// A finer word for the action, `payments.refund`; it folds back to the action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_kind: Option<BehaviourKind>,
    /// A finer word for what is returned; it folds back to the output domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_kind: Option<BehaviourKind>,
    /// Why this is right although the tool's definition or its author says otherwise: one line, written by the reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 300))]
    pub reviewed: Option<String>,
}

/// The longest `reviewed`.
pub const REVIEWED_CHARS_MAX: usize = 300;

impl Behaviour {
    /// The three words, and nothing finer.
    pub fn new(mutability: Mutability, action: Action, output_domain: OutputDomain) -> Self {
        Self {
            mutability,
            action,
            output_domain,
            content_type: None,
            action_kind: None,
            output_kind: None,
            reviewed: None,
        }
    }

    /// Reads the words of [`Behaviour::words`], with or without a content type: `PURE|READ|DATA|TEXT`.
    pub fn from_words(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split('|').map(str::trim).collect();
        let (&[mutability, action, output_domain], content_type) = (match words.as_slice() {
            [three @ .., content] if three.len() == 3 => (three, Some(*content)),
            three => (three, None),
        }) else {
            return Err(format!("`{text}` should be three or four words, e.g. `PURE|READ|DATA|TEXT`"));
        };
        let mut behaviour = Self::new(word(mutability)?, word(action)?, word(output_domain)?);
        behaviour.content_type = content_type.map(word).transpose()?;
        Ok(behaviour)
    }

    /// The behavioural identity: the first 16 hex digits of SHA-256 over the three words joined by `|`.
    pub fn identity(&self) -> String {
        short_hash(&self.words())
    }

    /// The three words, joined by `|`.
    pub fn words(&self) -> String {
        [self.mutability.word(), self.action.word(), self.output_domain.word()].join("|")
    }

    /// The identity that distinguishes more: content type and kinds are hashed too, if they are given.
    pub fn extended_identity(&self) -> String {
        short_hash(&self.extended_words())
    }

    /// The words of the extended identity: `PURE|READ|CONTENT|BINARY`.
    pub fn extended_words(&self) -> String {
        let content = self.content_type.map(|content| content.word().to_owned());
        let action = self.action_kind.as_ref().map(|kind| format!("action:{kind}"));
        let output = self.output_kind.as_ref().map(|kind| format!("output:{kind}"));
        [Some(self.words()), content, action, output].into_iter().flatten().collect::<Vec<_>>().join("|")
    }

    /// Why its kinds do not fit its action or output domain, if they do not.
    pub fn kind_faults(&self) -> impl Iterator<Item = String> {
        let action = self.action_kind.as_ref().and_then(|kind| kind.fault_beside_action(self.action));
        let output = self.output_kind.as_ref().and_then(|kind| kind.fault_beside_output(self.output_domain));
        let named = |field: &'static str| move |fault| format!("behaviour.{field}: {fault}");
        action.map(named("action_kind")).into_iter().chain(output.map(named("output_kind")))
    }
}

impl Behaviour {
    /// Why `reviewed` is not a line that a person could have written; `None` if it is fine.
    pub fn reviewed_fault(&self) -> Option<String> {
        let line = self.reviewed.as_ref()?;
        let fault = if line.trim().is_empty() {
            "it is empty; write why the declaration is right, or leave it out".to_owned()
        } else if line.chars().any(char::is_control) {
            "it must be one line".to_owned()
        } else if line.chars().nth(REVIEWED_CHARS_MAX).is_some() {
            format!("it is longer than {REVIEWED_CHARS_MAX} characters")
        } else {
            return None;
        };
        Some(format!("behaviour.reviewed: {fault}"))
    }
}

/// One word of a vocabulary; the error lists all valid words.
fn word<T: serde::de::DeserializeOwned>(word: &str) -> Result<T, String> {
    serde_json::from_value(word.into()).map_err(|error| crate::document::plain_reason(&error.to_string()))
}

fn short_hash(words: &str) -> String {
    crate::digest::hex(&Sha256::digest(words.as_bytes())).chars().take(16).collect()
}
