//! Finer words for what tools do and return, by family: payments, infrastructure, machine learning, and any families that an
//! author adds. A kind refines an action or a domain and folds back to it, so that a base identity never changes its meaning
//! when a family grows.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::vocabulary::{Action, OutputDomain};

/// A kind of a family, `payments.refund`. Families of other authors may have any kinds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BehaviourKind(String);

/// The known kinds of actions, and what each folds back to.
const ACTIONS: [(&str, Action); 22] = [
    ("payments.authorize", Action::Create),
    ("payments.charge", Action::Create),
    ("payments.capture", Action::Update),
    ("payments.refund", Action::Create),
    ("payments.payout", Action::Create),
    ("payments.void", Action::Delete),
    ("payments.dispute", Action::Update),
    ("payments.balance", Action::Read),
    ("infrastructure.plan", Action::Read),
    ("infrastructure.provision", Action::Create),
    ("infrastructure.deploy", Action::Overwrite),
    ("infrastructure.scale", Action::Update),
    ("infrastructure.restart", Action::Update),
    ("infrastructure.rollback", Action::Overwrite),
    ("infrastructure.terminate", Action::Delete),
    ("ml.train", Action::Create),
    ("ml.evaluate", Action::Read),
    ("ml.predict", Action::Read),
    ("ml.register", Action::Create),
    ("ml.promote", Action::Update),
    ("ml.label", Action::Append),
    ("ml.retire", Action::Delete),
];

/// The known kinds of outputs, and what each folds back to.
const OUTPUTS: [(&str, OutputDomain); 12] = [
    ("payments.payment", OutputDomain::Data),
    ("payments.invoice", OutputDomain::Data),
    ("payments.receipt", OutputDomain::Content),
    ("payments.account", OutputDomain::User),
    ("infrastructure.resource", OutputDomain::Data),
    ("infrastructure.topology", OutputDomain::Structure),
    ("infrastructure.change", OutputDomain::Diff),
    ("infrastructure.log", OutputDomain::Content),
    ("ml.model", OutputDomain::Ref),
    ("ml.metrics", OutputDomain::Data),
    ("ml.dataset", OutputDomain::Data),
    ("ml.prediction", OutputDomain::Data),
];

impl BehaviourKind {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Why it does not fit this action; `None` if it does.
    pub fn fault_beside_action(&self, action: Action) -> Option<String> {
        self.fault(&ACTIONS, action, Action::word)
    }

    /// Why it does not fit this domain; `None` if it does.
    pub fn fault_beside_output(&self, domain: OutputDomain) -> Option<String> {
        self.fault(&OUTPUTS, domain, OutputDomain::word)
    }

    fn fault<T: Copy + PartialEq>(&self, known: &[(&str, T)], base: T, word: fn(T) -> &'static str) -> Option<String> {
        if let Some((_, folds_to)) = known.iter().find(|(name, _)| *name == self.0) {
            return (*folds_to != base)
                .then(|| format!("`{self}` is a kind of {}, not of {}", word(*folds_to), word(base)));
        }
        let family = self.family();
        let siblings: Vec<&str> =
            known.iter().map(|(name, _)| *name).filter(|name| name.split('.').next() == Some(family)).collect();
        let ours = !siblings.is_empty();
        ours.then(|| format!("`{self}` is not known; the family has {}", siblings.join(", ")))
    }

    fn family(&self) -> &str {
        self.0.split('.').next().unwrap_or_default()
    }
}

impl TryFrom<String> for BehaviourKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain = |part: &str| {
            part.starts_with(|first: char| first.is_ascii_lowercase())
                && part.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "_-".contains(one))
        };
        match text.split_once('.') {
            Some((family, word)) if text.len() <= KIND_CHARS_MAX && plain(family) && plain(word) => Ok(Self(text)),
            _ => Err("a kind is a family and a word in lower case, such as `payments.refund`".to_owned()),
        }
    }
}

const KIND_CHARS_MAX: usize = 64;

impl From<BehaviourKind> for String {
    fn from(kind: BehaviourKind) -> Self {
        kind.0
    }
}

impl fmt::Display for BehaviourKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl JsonSchema for BehaviourKind {
    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A kind of a family, `payments.refund`. Families of other authors may have any kinds.",
            "type": "string",
            "pattern": "^[a-z][a-z0-9_-]*\\.[a-z][a-z0-9_-]*$",
            "maxLength": KIND_CHARS_MAX,
        })
    }
}
