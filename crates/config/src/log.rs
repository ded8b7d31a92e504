//! The configuration of the gateway's own log on stderr: its form and its levels. Both may change while the gateway runs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ConfigFieldFault;

/// The most targets with a level of their own.
const TARGETS_MAX: usize = 64;

/// The gateway's own log on stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The form of its lines.
    #[serde(skip_serializing_if = "LogFormat::is_default")]
    pub format: LogFormat,
    /// The least grave events that it has; `warn` by default. `--verbose` and the variable `SERVANDA_LOG` take precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<EventLevel>,
    /// Other levels for parts of the gateway, by the beginning of an event's target, e.g. `servanda_ledger`. The target of the events about
    /// decisions is `servanda_decision`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, EventLevel>,
}

/// The form of the log's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line, with one event for the decision about every call.
    Json,
}

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventLevel {
    /// No event.
    Off,
    /// What went wrong.
    Error,
    /// What a person should look at, too.
    Warn,
    /// What happened, too.
    Info,
    /// What helps to find a mistake, too.
    Debug,
    /// Everything.
    Trace,
}

impl LogConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl LogFormat {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks it so")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl EventLevel {
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

pub(super) fn fault(config: &LogConfig) -> Option<ConfigFieldFault> {
    if config.targets.len() > TARGETS_MAX {
        let reason = format!("has {} targets; at most {TARGETS_MAX} are allowed", config.targets.len());
        return Some(("log.targets".to_owned(), reason));
    }
    let is_target = |target: &String| {
        let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
        !target.is_empty() && target.chars().all(is_part)
    };
    let wrong = config.targets.keys().find(|target| !is_target(target))?;
    let reason = "a target has letters, digits, `_` and `::`, e.g. `servanda_ledger`".to_owned();
    Some((format!("log.targets.{wrong}"), reason))
}

#[cfg(test)]
mod tests {
    use super::{EventLevel, LogConfig, TARGETS_MAX, fault};

    #[test]
    fn a_target_is_a_path_and_there_are_not_too_many() {
        let of = |targets: &[String]| LogConfig {
            targets: targets.iter().map(|target| (target.clone(), EventLevel::Debug)).collect(),
            ..LogConfig::default()
        };
        assert_eq!(fault(&of(&["servanda_ledger::sqlite".to_owned()])), None);
        for wrong in ["", "a=b", "servanda,warn", "[call]"] {
            assert_eq!(fault(&of(&[wrong.to_owned()])).map(|(field, _)| field), Some(format!("log.targets.{wrong}")));
        }
        let many: Vec<String> = (0..=TARGETS_MAX).map(|number| format!("t{number}")).collect();
        assert_eq!(fault(&of(&many)).map(|(field, _)| field).as_deref(), Some("log.targets"));
    }
}
