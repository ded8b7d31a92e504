//! How long a tool may take, for how long its answers keep, and when it may be asked again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Timeout class, caching, retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// The latency this tool promises.
    pub timeout_class: TimeoutClass,
    /// For how long an answer may be served again; class R only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_sec: Option<u64>,
    /// How a retry waits; `runtime.max_retries` says how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
}

/// The latency a tool promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutClass {
    /// Under 500 ms.
    Interactive,
    /// Under 5 s.
    Standard,
    /// Under 5 min.
    LongRunning,
    /// Longer: submitted, then asked for.
    Async,
}

/// How a retry waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// The first wait.
    #[schemars(range(min = 1))]
    pub base_ms: u64,
    /// The longest wait.
    #[schemars(range(min = 1))]
    pub wait_ms_max: u64,
    /// How much of a wait is random, in percent.
    #[schemars(range(max = 100))]
    pub jitter_percent: u8,
}

impl TimeoutClass {
    /// The longest a call of this class may take. An async call is bounded by `runtime.timeout_ms` alone.
    pub const fn timeout_ms_max(self) -> u64 {
        match self {
            Self::Interactive => 500,
            Self::Standard => 5_000,
            Self::LongRunning => 300_000,
            Self::Async => u64::MAX,
        }
    }

    /// Whether callers are not expected to wait for the end.
    pub const fn is_long(self) -> bool {
        matches!(self, Self::LongRunning | Self::Async)
    }
}
