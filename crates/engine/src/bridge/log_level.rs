//! How severe a line of a server's log is, read from the raw `params` of its notification.

use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::LogLevel;

/// The level of a log line; none if it names no level of the protocol.
pub(crate) fn level_of_line(params: &RawValue) -> Option<LogLevel> {
    #[derive(Deserialize)]
    struct Line {
        level: String,
    }
    let line: Line = serde_json::from_str(params.get()).ok()?;
    LogLevel::from_wire(&line.level)
}

#[cfg(test)]
mod tests {
    use servanda_mcp::LogLevel;

    use super::level_of_line;

    #[test]
    fn lines_have_the_level_they_name() {
        let line = |level: &str| {
            let text = format!(r#"{{"level":"{level}","data":[1]}}"#);
            level_of_line(&serde_json::value::RawValue::from_string(text).unwrap())
        };
        for level in LogLevel::ALL {
            assert_eq!(line(level.as_str()), Some(level));
        }
        assert_eq!(line("loud"), None);
    }
}
