//! `telemetry:` of the configuration: what operators measure, and where it goes.

pub(crate) mod traces;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use traces::{TraceProtocol, TracesConfig};

use crate::{Config, ConfigFieldFault};

/// What operators measure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
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
    config.telemetry.traces.as_ref()?.fault()
}
