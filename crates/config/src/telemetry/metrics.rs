//! `telemetry.metrics`: the figures at `/metrics`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConfigFieldFault;

/// Series that a metric may have by default.
const SERIES_MAX: u32 = 2_000;
/// What the page would be too long with.
const SERIES_MAX_MAX: u32 = 100_000;

/// The figures at `/metrics`. Changes count from the next start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Whether calls are counted and the page is there.
    pub enabled: bool,
    /// The most series of one metric. What comes after them is counted in one series, whose labels are `other`.
    #[schemars(range(min = 1, max = 100_000))]
    pub series_max: u32,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { enabled: true, series_max: SERIES_MAX }
    }
}

impl MetricsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn fault(&self) -> Option<ConfigFieldFault> {
        let is_possible = (1..=SERIES_MAX_MAX).contains(&self.series_max);
        let reason = || format!("must be between 1 and {SERIES_MAX_MAX}");
        (!is_possible).then(|| ("telemetry.metrics.series_max".to_owned(), reason()))
    }
}
