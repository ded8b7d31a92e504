//! The configuration of retention: how long the ledger keeps finished calls, and how large it may become.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_ledger::{LedgerLimits, Retention};

/// How long the ledger keeps finished calls. Calls that are running or have an unknown outcome are kept until they are settled, whatever
/// this says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionConfig {
    /// For records of calls, with withheld answers: `30d`, `12h`, `15m`, `90s` or `forever`.
    pub records: KeptFor,
    /// For used keys, counted from the end of the key's own window, in which its answer is kept anyway. A forgotten key can be used again.
    pub tombstones: KeptFor,
}

/// How large the ledger may become. New calls that change something are refused before it is full; running calls are still settled. Calls
/// pass again when there is room.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LedgerLimitsConfig {
    /// The most bytes that the ledger may use; limited only by the disk by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// Bytes that stay free on the disk, for a ledger in a file. By default 256 MiB, or a tenth of a disk below 2.5 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes_min: Option<u64>,
}

/// A span of time, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^([1-9][0-9]{0,8}[smhd]|forever)$"))]
pub enum KeptFor {
    /// This many seconds.
    Seconds(u64),
    /// For ever.
    Forever,
}

const DAY_SEC: u64 = 86_400;

impl Default for KeptFor {
    fn default() -> Self {
        Self::Seconds(30 * DAY_SEC)
    }
}

impl KeptFor {
    fn ms(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds.saturating_mul(1_000)),
            Self::Forever => None,
        }
    }
}

impl TryFrom<String> for KeptFor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "forever" {
            return Ok(Self::Forever);
        }
        let wrong = || {
            format!("`{text}` is no time to keep something for; write it like `30d`, `12h`, `15m`, `90s` or `forever`")
        };
        let unit_sec = match text.chars().next_back() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 3_600,
            Some('d') => DAY_SEC,
            _ => return Err(wrong()),
        };
        let digits = text.get(..text.len() - 1).filter(|digits| digits.len() <= 9 && !digits.starts_with('+'));
        let count: u64 = digits.and_then(|digits| digits.parse().ok()).filter(|count| *count > 0).ok_or_else(wrong)?;
        Ok(Self::Seconds(count * unit_sec))
    }
}

impl From<KeptFor> for String {
    fn from(kept: KeptFor) -> Self {
        match kept {
            KeptFor::Forever => "forever".to_owned(),
            KeptFor::Seconds(seconds) if seconds % DAY_SEC == 0 => format!("{}d", seconds / DAY_SEC),
            KeptFor::Seconds(seconds) if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
            KeptFor::Seconds(seconds) if seconds % 60 == 0 => format!("{}m", seconds / 60),
            KeptFor::Seconds(seconds) => format!("{seconds}s"),
        }
    }
}

impl RetentionConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The retention that the ledger applies.
    pub fn retention(&self) -> Retention {
        Retention { records_ms: self.records.ms(), tombstones_ms: self.tombstones.ms() }
    }
}

impl LedgerLimitsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The limits that the ledger applies.
    pub fn limits(&self) -> LedgerLimits {
        LedgerLimits { bytes_max: self.bytes_max, free_bytes_min: self.free_bytes_min }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeptFor, RetentionConfig};

    #[test]
    fn a_time_is_read_and_written_in_the_same_words() {
        for text in ["30d", "12h", "15m", "90s", "forever"] {
            assert_eq!(String::from(KeptFor::try_from(text.to_owned()).unwrap()), text);
        }
        assert_eq!(String::from(KeptFor::try_from("24h".to_owned()).unwrap()), "1d");
        for text in ["", "d", "30", "0d", "-1d", "+1d", "1 d", "1w", "30d ", "9999999999d", "１d", "for ever"] {
            let error = KeptFor::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains("`30d`"), "{error}");
        }
        let retention = RetentionConfig::default().retention();
        assert_eq!((retention.records_ms, retention.tombstones_ms), (Some(2_592_000_000), Some(2_592_000_000)));
    }
}
