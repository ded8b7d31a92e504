//! `telemetry:` of the configuration: what operators measure, and where it goes.

mod metrics;
pub(crate) mod traces;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use metrics::MetricsConfig;
pub use traces::{TraceProtocol, TracesConfig};

use crate::{Config, ConfigFieldFault};

/// What operators measure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// The figures at `/metrics`.
    #[serde(skip_serializing_if = "MetricsConfig::is_default")]
    pub metrics: MetricsConfig,
    /// The export of spans; none without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<Box<TracesConfig>>,
}

impl TelemetryConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The first impossible value.
pub(super) fn fault(config: &Config) -> Option<ConfigFieldFault> {
    let telemetry = &config.telemetry;
    telemetry.metrics.fault().or_else(|| telemetry.traces.as_ref()?.fault())
}
