//! How much of a server's log somebody wants: the eight severities of RFC 5424, in the protocol's words.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A severity; a greater one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The word of the protocol.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The severity of that word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }

    /// The severity of a log line, from the raw `params` of its notification.
    pub(crate) fn of_line(params: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            level: String,
        }
        let line: Line = serde_json::from_str(params.get()).ok()?;
        Self::of_word(&line.level)
    }
}

#[cfg(test)]
mod tests {
    use super::LogLevel;

    #[test]
    fn worse_is_greater_and_words_come_back() {
        assert!(LogLevel::ALL.is_sorted());
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::of_word(level.word()), Some(level));
            let line = format!(r#"{{"level":"{}","data":[1]}}"#, level.word());
            let line = serde_json::value::RawValue::from_string(line).unwrap();
            assert_eq!(LogLevel::of_line(&line), Some(level));
        }
        assert_eq!(LogLevel::of_word("loud"), None);
    }
}
