//! How long a tool may take, how long its answers stay valid, and when it may be asked again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Timeout class, caching, retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// The latency this tool promises.
    pub timeout_class: TimeoutClass,
    /// How long an answer may be served again; class R only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_ttl_sec: Option<u64>,
    /// How a retry waits; `runtime.max_retries` says how often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Long work only: how to ask for the end of what the tool submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<PollPlan>,
}

/// The latency a tool promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutClass {
    /// Under 500 ms.
    Interactive,
    /// Under 5 s.
    Standard,
    /// Not measured yet: callers wait, as long as `runtime.timeout_ms` says and no longer than 5 min.
    Unmeasured,
    /// Under 5 min.
    LongRunning,
    /// Longer: submitted first, then polled.
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

/// How to ask for the end of a submitted operation: the tool answers at once with an operation's id, and a read-only tool of
/// the same upstream reports the operation's state. Pointers are JSON Pointers into structured answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PollPlan {
    /// The status tool, by contract name.
    pub tool: String,
    /// Where the operation's id is in what this tool answers.
    pub operation_pointer: String,
    /// The argument of the status tool that takes the operation's id.
    pub operation_argument: String,
    /// Where the operation's state is in what the status tool answers.
    pub state_pointer: String,
    /// States that mean that the operation is done.
    pub done_states: Vec<String>,
    /// States that mean that the operation failed for good. Any other state means that it is still running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_states: Vec<String>,
    /// Where the result is in what the status tool answers; the whole answer by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_pointer: Option<String>,
    /// How long to wait before the first question, and at least between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 60_000))]
    pub interval_ms: Option<u64>,
}

impl TimeoutClass {
    /// The longest a call of this class may take. An async call is bounded by `runtime.timeout_ms` alone.
    pub const fn timeout_ms_max(self) -> u64 {
        match self {
            Self::Interactive => 500,
            Self::Standard => 5_000,
            Self::Unmeasured | Self::LongRunning => 300_000,
            Self::Async => u64::MAX,
        }
    }

    /// The word as contracts write it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Standard => "standard",
            Self::Unmeasured => "unmeasured",
            Self::LongRunning => "long_running",
            Self::Async => "async",
        }
    }

    /// Whether callers are not expected to wait for the end.
    pub const fn is_long(self) -> bool {
        matches!(self, Self::LongRunning | Self::Async)
    }
}
