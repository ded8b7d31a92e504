//! How grave a line of a server's log is, by RFC 5424 and under MCP's names.

/// A level; the graver, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// For whoever takes it apart.
    Debug,
    /// How it goes.
    Info,
    /// Normal, but worth a look.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something went wrong.
    Error,
    /// A part of it fails.
    Critical,
    /// Somebody has to act now.
    Alert,
    /// It cannot be used.
    Emergency,
}

impl LogLevel {
    /// Least grave first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The wire form.
    pub const fn as_str(self) -> &'static str {
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

    /// The level of that wire form.
    pub fn from_wire(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::LogLevel;

    #[test]
    fn every_level_is_read_back_and_graver_is_greater() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_wire(level.as_str()), Some(level));
        }
        assert!(LogLevel::ALL.is_sorted());
        for text in ["", "Debug", "warn", "fatal"] {
            assert_eq!(LogLevel::from_wire(text), None);
        }
    }
}
