//! Which events the log has: by the command line, the environment and the configuration, in this order of precedence.

use servanda_config::{LogConfig, LogFormat};
use servanda_engine::{CALL_LINES, DECISIONS};
use tracing_subscriber::EnvFilter;

/// What was said when the command was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogStart {
    /// The level by the command line, or the usual one of the command.
    pub(crate) level: &'static str,
    /// Whether a person asked for that level.
    pub(crate) is_asked_for: bool,
    /// Whether there is a line for people about every call.
    pub(crate) prints_calls: bool,
}

/// The filter of a log with this configuration. `variable` is what `SERVANDA_LOG` says, if it can be understood.
pub(super) fn filter(start: LogStart, config: &LogConfig, variable: Option<EnvFilter>) -> EnvFilter {
    let is_by_variable = variable.is_some();
    let mut filter = variable.unwrap_or_else(|| {
        let configured = config.level.filter(|_| !start.is_asked_for);
        let level = configured.map_or(start.level, |level| level.name());
        EnvFilter::new(format!("servanda={level},{level}"))
    });
    let is_json = config.format == LogFormat::Json;
    let mut add = |target: &str, level: &str| {
        if let Ok(directive) = format!("{target}={level}").parse() {
            filter = std::mem::take(&mut filter).add_directive(directive);
        }
    };
    // The line for people would be in the way of programs, which have the event.
    add(CALL_LINES, if start.prints_calls && !is_json { "info" } else { "off" });
    if is_json && !is_by_variable {
        add(DECISIONS, "info");
    }
    if !is_by_variable {
        config.targets.iter().for_each(|(target, level)| add(target, level.name()));
    }
    filter
}

#[cfg(test)]
mod tests {
    use servanda_config::{EventLevel, LogConfig, LogFormat};
    use tracing_subscriber::EnvFilter;

    use super::{LogStart, filter};

    const USUAL: LogStart = LogStart { level: "warn", is_asked_for: false, prints_calls: true };

    fn directives(start: LogStart, config: &LogConfig, variable: Option<&str>) -> Vec<String> {
        let filter = filter(start, config, variable.map(EnvFilter::new));
        let mut directives: Vec<String> = filter.to_string().split(',').map(str::to_owned).collect();
        directives.sort();
        directives
    }

    #[test]
    fn the_configuration_decides_unless_a_person_or_the_environment_did() {
        let configured = LogConfig { level: Some(EventLevel::Error), ..LogConfig::default() };
        let asked = LogStart { level: "debug", is_asked_for: true, ..USUAL };
        let quiet = LogStart { prints_calls: false, ..USUAL };
        let json = LogConfig { format: LogFormat::Json, ..LogConfig::default() };
        let targets =
            LogConfig { targets: [("servanda_ledger".to_owned(), EventLevel::Debug)].into(), ..configured.clone() };
        let silent = LogConfig { targets: [("servanda_decision".to_owned(), EventLevel::Off)].into(), ..json.clone() };
        let table: [(LogStart, &LogConfig, Option<&str>, &[&str]); 7] = [
            (USUAL, &LogConfig::default(), None, &["servanda=warn", "servanda_call=info", "warn"]),
            (quiet, &configured, None, &["error", "servanda=error", "servanda_call=off"]),
            (asked, &configured, None, &["debug", "servanda=debug", "servanda_call=info"]),
            (USUAL, &targets, None, &["error", "servanda=error", "servanda_call=info", "servanda_ledger=debug"]),
            (USUAL, &json, None, &["servanda=warn", "servanda_call=off", "servanda_decision=info", "warn"]),
            (USUAL, &silent, None, &["servanda=warn", "servanda_call=off", "servanda_decision=off", "warn"]),
            (USUAL, &targets, Some("trace"), &["servanda_call=info", "trace"]),
        ];
        for (start, config, variable, expected) in table {
            assert_eq!(directives(start, config, variable), expected, "{start:?} {config:?} {variable:?}");
        }
    }
}
