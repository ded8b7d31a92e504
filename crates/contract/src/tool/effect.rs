//! What a tool changes in the world, and what may be done when it is unknown whether it did.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Declared in the contract, never taken from an upstream's hint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Effect")]
pub struct EffectDeclaration {
    /// What may follow an uncertain dispatch.
    pub class: EffectClass,
    /// Read-only, reversible or irreversible; admission refuses a contract without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation_class: Option<MutationClass>,
    /// Every change the tool may make.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest: Vec<SideEffect>,
    /// Classes K and Q: where the upstream takes our key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyPlacement>,
    /// Class K: for how long the upstream remembers a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub key_window_sec: Option<u64>,
    /// Class Q: which tool answers whether a key was executed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusQuery>,
    /// The upstream's own error codes or texts that mean that nothing was done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_executed_errors: Vec<String>,
    /// Whether calls that change the same thing wait for each other.
    #[serde(default, skip_serializing_if = "Overlap::is_default")]
    pub overlap: Overlap,
    /// What the caller must have seen last: a lost update becomes a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<VersionQuery>,
    /// Class R: what the tool reads, by the names that manifests use; anything of the upstream, if nothing is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
}

/// What happens to two calls that change the same thing at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// One waits for the other.
    #[default]
    Serialise,
    /// Both are sent.
    Allow,
}

/// Which tool tells the current version of what a call changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionQuery {
    /// The argument by which the caller says which version it has seen; the input schema requires it.
    pub argument: String,
    /// The read-only tool to ask, by contract name.
    pub tool: String,
    /// Its arguments; `{name}` stands for the call's argument of that name.
    pub arguments: Map<String, Value>,
    /// A CEL expression over `result`, the structured answer: the version as it is now.
    pub rule: String,
}

/// What may follow a dispatch whose outcome is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum EffectClass {
    /// Read-only: send again freely.
    R,
    /// Keyed: the upstream dedupes on our key; send the same bytes again.
    K,
    /// Queryable: ask the status tool.
    Q,
    /// Neither: never send again.
    N,
}

/// Whether what a tool does can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MutationClass {
    /// Nothing changes.
    ReadOnly,
    /// A compensation exists.
    WriteReversible,
    /// There is no way back.
    WriteIrreversible,
}

/// One change a tool may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SideEffect {
    /// What is changed, e.g. `invoice/{invoice_id}`.
    pub resource: String,
    /// How it is changed.
    pub operation: SideEffectOperation,
    /// How far it reaches, e.g. `tenant`, `external`.
    pub scope: String,
}

/// How a resource is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SideEffectOperation {
    /// Creates it.
    Create,
    /// Changes its content.
    Update,
    /// Removes it.
    Delete,
}

/// Where an upstream takes our key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlacement {
    /// An HTTP header.
    Header(String),
    /// A tool argument.
    Argument(String),
    /// A `_meta` member.
    Meta(String),
}

/// Which tool tells whether a key was executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusQuery {
    /// The contract name of the status tool.
    pub tool: String,
    /// The argument of it that takes the key.
    pub key_argument: String,
    /// Whether "not found" proves that it never ran.
    pub absence_is_authoritative: bool,
    /// A CEL expression over `result`, the structured answer: whether it says that the key was executed. Without one,
    /// `result.found == true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_when: Option<String>,
}

impl EffectClass {
    /// Whether the upstream gets our key, to dedupe on it or to be asked by it.
    pub const fn takes_key(self) -> bool {
        matches!(self, Self::K | Self::Q)
    }

    /// Whether a call may change anything.
    pub const fn mutates(self) -> bool {
        !matches!(self, Self::R)
    }
}

impl Overlap {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
