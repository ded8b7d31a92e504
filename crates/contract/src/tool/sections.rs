//! The specification's sections that are plain statements: identity, runtime, security, transactions, idempotency,
//! observability, errors. Field names and words are the specification's.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name, version, owner, lifecycle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The contract's stable name.
    #[schemars(regex(pattern = r"^[a-zA-Z0-9_.-]{1,128}$"))]
    pub name: String,
    /// Semantic version.
    pub version: String,
    /// The owner, who is responsible for it.
    pub owner: String,
    /// Where it is in its life.
    pub lifecycle: Lifecycle,
}

impl Identity {
    /// The first number of the version. It changes exactly when something changes that callers rely on.
    pub fn major(&self) -> u64 {
        semver::Version::parse(&self.version).map_or(0, |version| version.major)
    }
}

/// Where a contract is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    /// Active, deprecated or gone.
    pub status: LifecycleStatus,
    /// When it goes, as a date.
    #[serde(deserialize_with = "present")]
    #[schemars(required, extend("type" = ["string", "null"], "format" = "date"))]
    pub sunset_date: Option<String>,
    /// What takes its place.
    #[serde(deserialize_with = "present")]
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub replacement: Option<String>,
}

/// Active, deprecated or gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleStatus {
    /// In use.
    Active,
    /// Still served; move away.
    Deprecated,
    /// Not served.
    Sunsetted,
}

/// Time, rate, cost, isolation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Runtime {
    /// The longest a call may take; the timeout class may say less.
    #[schemars(range(min = 1))]
    pub timeout_ms: u64,
    /// How many calls in which window.
    pub rate_limits: RateLimits,
    /// What a call costs.
    pub cost_profile: CostProfile,
    /// Whether it runs in a sandbox.
    pub sandbox_isolated: bool,
    /// How often a safe retry is made.
    pub max_retries: u32,
}

/// How many calls in which window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// The window.
    #[schemars(range(min = 1))]
    pub window_sec: u64,
    /// The calls in it.
    #[schemars(range(min = 1))]
    pub max_requests: u64,
}

/// What a call costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostProfile {
    /// ISO 4217, or a custom unit.
    pub currency: String,
    /// Per unit.
    #[schemars(range(min = 0))]
    pub cost_per_call: f64,
    /// The unit.
    pub cost_unit: CostUnit,
    /// What each call costs on top, by what it is spent on.
    #[serde(default, skip_serializing_if = "CostComponents::are_nothing")]
    pub components: CostComponents,
}

/// What a call costs, by what it is spent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CostComponents {
    /// Processor time.
    #[schemars(range(min = 0))]
    pub compute: f64,
    /// What a provider charges.
    #[schemars(range(min = 0))]
    pub external_api: f64,
    /// Reading and writing of storage.
    #[schemars(range(min = 0))]
    pub storage_io: f64,
    /// Network traffic.
    #[schemars(range(min = 0))]
    pub network: f64,
    /// Model tokens.
    #[schemars(range(min = 0))]
    pub token: f64,
    /// A person's time.
    #[schemars(range(min = 0))]
    pub human_review: f64,
}

impl CostComponents {
    fn are_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The unit a cost is per.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostUnit {
    /// A call.
    Call,
    /// A token.
    Token,
    /// A second.
    Second,
    /// A transaction.
    Transaction,
    /// Something else.
    Custom,
}

/// Scopes, tenancy, secrets, data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Security {
    /// Every scope a caller needs.
    pub required_scopes: Vec<String>,
    /// Whether everything it touches belongs to one tenant.
    pub tenant_scoped: bool,
    /// Where secrets enter.
    pub secrets_boundary: SecretsBoundary,
    /// How sensitive its data is.
    pub data_classification: DataClassification,
    /// Where it may connect to.
    pub egress_policy: EgressPolicy,
}

/// Where secrets enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretsBoundary {
    /// Servanda injects them.
    GatewayInjected,
    /// The tool's own environment has them.
    ExecutionSandbox,
    /// There are none.
    None,
}

/// How sensitive data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DataClassification {
    /// Anyone may see it.
    Public,
    /// Anyone inside the organisation may see it.
    Internal,
    /// Only people who need it may see it.
    Confidential,
    /// A law or regulation restricts it.
    Regulated,
    /// Access needs a reason on record.
    Secret,
}

/// Where a tool may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EgressPolicy {
    /// It may connect nowhere.
    None,
    /// Listed domains.
    AllowlistedDomains,
    /// The private network.
    PrivateNetworkOnly,
    /// Anywhere, with approval.
    UnrestrictedWithApproval,
}

/// Side effects and what undoes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transactional {
    /// How grave a call is.
    pub side_effect_class: SideEffectClass,
    /// Whether a person has to approve each call.
    pub confirmation_required: bool,
    /// The tool's role in a transaction.
    pub semantics: TransactionSemantics,
    /// What undoes it, by contract name.
    #[serde(deserialize_with = "present")]
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub compensation_tool: Option<String>,
    /// Whether the effect has to be checked afterwards.
    pub post_action_verification_required: bool,
}

/// How grave a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SideEffectClass {
    /// Changes nothing.
    ReadOnly,
    /// Changes something temporary of its own.
    EphemeralWrite,
    /// Changes something internal with little reach.
    LowRiskInternal,
    /// Changes what people work with.
    MediumRiskWrite,
    /// Affects something outside the organisation.
    HighRiskExternal,
    /// Moves money, rights, code, or deletes.
    CriticalMutation,
}

impl SideEffectClass {
    /// Every class, the least grave first.
    pub const ALL: [Self; 6] = [
        Self::ReadOnly,
        Self::EphemeralWrite,
        Self::LowRiskInternal,
        Self::MediumRiskWrite,
        Self::HighRiskExternal,
        Self::CriticalMutation,
    ];

    /// The word as the specification writes it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ReadOnly => "READ_ONLY",
            Self::EphemeralWrite => "EPHEMERAL_WRITE",
            Self::LowRiskInternal => "LOW_RISK_INTERNAL",
            Self::MediumRiskWrite => "MEDIUM_RISK_WRITE",
            Self::HighRiskExternal => "HIGH_RISK_EXTERNAL",
            Self::CriticalMutation => "CRITICAL_MUTATION",
        }
    }
}

/// A tool's role in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransactionSemantics {
    /// It changes nothing.
    ReadOnly,
    /// Two identical calls have the effect of one.
    IdempotentWrite,
    /// It can be undone.
    CompensableWrite,
    /// A step of a saga.
    SagaStep,
    /// The point of no return.
    IrreversiblePivot,
    /// After the point of no return: retried until it works.
    RetryablePostPivot,
}

/// How duplicates are recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the specification's section")]
pub struct Idempotency {
    /// Whether the tool takes a key.
    pub supported: bool,
    /// Whether a call without a key is refused.
    pub required: bool,
    /// The header that carries the key.
    #[serde(deserialize_with = "present")]
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub key_header: Option<String>,
    /// How long a key is remembered.
    #[serde(deserialize_with = "present")]
    #[schemars(required, range(min = 1), extend("type" = ["integer", "null"]))]
    pub ttl_seconds: Option<u64>,
    /// Whether a key is bound to its payload.
    pub payload_hash_required: bool,
    /// No longer needed: for every tool that changes something, the tool list shows the argument by which a model can name its
    /// operation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub operation_argument: bool,
}

/// What is traced and audited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observability {
    /// Attributes a span carries.
    pub trace_attributes: Vec<String>,
    /// Whether every call must be on record.
    pub audit_required: bool,
    /// The upstream's own error codes or texts, and the taxonomy class each means.
    pub error_taxonomy_mapping: BTreeMap<String, String>,
}

/// Which errors may be repaired, retried, escalated: names of taxonomy classes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorContract {
    /// The caller may correct these.
    pub repairable_errors: Vec<String>,
    /// The same call may be made again after these.
    pub retryable_errors: Vec<String>,
    /// These end the attempt.
    pub fail_closed_errors: Vec<String>,
    /// A person should see these.
    pub escalation_errors: Vec<String>,
}

/// A field that may be null but must be present: leaving it out is not the same as "none". The schema names `null` itself,
/// because schemars treats a required option as one that is never null.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}
