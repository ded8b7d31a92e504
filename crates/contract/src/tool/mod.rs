//! The tool contract: what a tool takes, gives back, may do, costs and promises, in writing and versioned.
//!
//! The eight sections of the specification are complete and keep their field names. The sections after them add what the
//! rest of the specification asks of a tool. Sections that admission judges one by one are optional here, so that a
//! contract without them is read and then refused with every missing conjunct named, not with the first.

mod affordance;
mod approval;
mod behaviour;
mod effect;
mod execution;
mod kinds;
mod probes;
mod promises;
mod questions;
mod sections;
mod vocabulary;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use affordance::{Affordance, Example};
pub use approval::{ApprovalPattern, ApprovalTerms, CONSEQUENCE_CHARS_MAX, Presence, StateQuery, UpstreamDryRun};
pub use behaviour::{Behaviour, REVIEWED_CHARS_MAX};
pub use effect::{
    EffectClass, EffectDeclaration, KeyPlacement, MutationClass, Overlap, SideEffect, SideEffectOperation, StatusQuery,
    VersionQuery,
};
pub use execution::{Execution, PollPlan, RetryPolicy, TimeoutClass};
pub use kinds::BehaviourKind;
pub use probes::{Probe, Probes};
pub use promises::{PostActionVerification, Precondition, PreconditionRule, SemanticRule};
pub use questions::QuestionKind;
pub use sections::{
    CostComponents, CostProfile, CostUnit, DataClassification, EgressPolicy, ErrorContract, Idempotency, Identity,
    Lifecycle, LifecycleStatus, Observability, RateLimits, Runtime, SecretsBoundary, Security, SideEffectClass,
    TransactionSemantics, Transactional,
};
pub use vocabulary::{Action, ContentType, Mutability, OutputDomain};

use crate::{
    Digest,
    digest::DigestDomain,
    document::{self, DocumentError},
    json,
    shared::Shared,
};

/// A whole contract: one tool, one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolContract {
    /// Name, version, owner, lifecycle.
    pub identity: Identity,
    /// What the model is told: text, schemas, examples. Advisory for the model, enforced for the arguments.
    pub affordance: Affordance,
    /// Time, rate, cost, isolation.
    pub runtime: Shared<Runtime>,
    /// Scopes, tenancy, secrets, data.
    pub security: Shared<Security>,
    /// Side effects and what undoes them.
    pub transactional: Shared<Transactional>,
    /// How duplicates are recognised.
    pub idempotency: Shared<Idempotency>,
    /// What is traced and audited.
    pub observability: Shared<Observability>,
    /// Which errors may be repaired, retried, escalated.
    pub error_contract: Shared<ErrorContract>,

    /// Which upstream performs it, under which name.
    pub binding: Binding,
    /// Timeout class, caching, retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Shared<Execution>>,
    /// What it changes in the world, and what may be done when it is unknown whether it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Shared<EffectDeclaration>>,
    /// The behavioural identity the author declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<Behaviour>,
    /// Rules over the arguments that a schema cannot say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<SemanticRule>,
    /// What must hold before it runs, asked of another tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<Precondition>,
    /// Where to look before and after it ran, to see whether it changed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
    /// What should be seen after it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<PostActionVerification>,
    /// What the upstream may ask the caller while it works on a call; an empty list allows nothing. Without it, the upstream
    /// may ask everything that the client supports and no policy forbids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<Vec<QuestionKind>>,
    /// Whether a person approves each call, and what that person is shown. Without it, the side-effect class decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Shared<ApprovalTerms>>,
}

/// Which upstream performs a tool, under which name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The upstream's id in the configuration: never its URL, never what it calls itself.
    pub upstream: String,
    /// The tool's own name there.
    pub tool: String,
}

impl ToolContract {
    /// Reads a whole contract. `file` is used only in errors.
    pub fn from_document(file: &str, text: &str) -> Result<Self, DocumentError> {
        document::read(file, text)
    }

    /// The digest of the contract's meaning: the same for YAML and JSON, for any order of fields and any white space.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        Self::digest_of(&serde_json::to_value(self)?)
    }

    /// The digest of a contract, given as its document.
    pub(crate) fn digest_of(document: &serde_json::Value) -> Result<Digest, serde_json::Error> {
        let canonical = json::canonicalize(document)?;
        Ok(Digest::compute(DigestDomain::Contract, &[canonical.bytes()]))
    }

    /// The effect class; a tool without one counts as N, so nothing is ever sent again.
    pub fn effect_class(&self) -> EffectClass {
        self.effect.as_ref().map_or(EffectClass::N, |effect| effect.class)
    }

    /// Whether it changes anything, by its effect class.
    pub fn mutability(&self) -> Mutability {
        if self.effect_class().mutates() { Mutability::Mutates } else { Mutability::Pure }
    }

    /// The longest a call may take: the lesser of the timeout class and `runtime.timeout_ms`.
    pub fn timeout_ms(&self) -> u64 {
        let class_ms = self.execution.as_ref().map_or(u64::MAX, |execution| execution.timeout_class.timeout_ms_max());
        class_ms.min(self.runtime.timeout_ms)
    }

    /// The member that sets the longest a call may take.
    pub fn timeout_field(&self) -> &'static str {
        let by_class =
            self.execution.as_ref().is_some_and(|it| it.timeout_class.timeout_ms_max() < self.runtime.timeout_ms);
        if by_class { "execution.timeout_class" } else { "runtime.timeout_ms" }
    }

    /// What the upstream may not ask the caller.
    pub fn refused_questions(&self) -> Vec<QuestionKind> {
        let Some(permitted) = &self.questions else { return Vec::new() };
        QuestionKind::ALL.into_iter().filter(|kind| !permitted.contains(kind)).collect()
    }

    /// Whether it is long work: callers are not expected to wait for the end, and can ask for it later.
    pub fn is_long(&self) -> bool {
        self.execution.as_ref().is_some_and(|execution| execution.timeout_class.is_long())
    }
}
