//! The arguments of `policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// The subcommands of `policy`.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the schema that policies are written against, in Cedar's language
    Schema,
    /// Run the cases of a file: calls with the decision that each must get
    Test {
        /// The cases, YAML or JSON.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Use these policies instead of the configured ones: a file or a folder.
        #[arg(long, value_name = "PATH")]
        policies: Option<PathBuf>,
    },
    /// Say which policies decided a recorded call, and what the current policies would decide
    Explain {
        /// The call, or the beginning of its id.
        #[arg(value_name = "CALL_ID")]
        call_id: String,
        /// The call's arguments as JSON, because records do not keep them; `-` reads them from stdin.
        #[arg(long, value_name = "FILE")]
        arguments: Option<PathBuf>,
    },
    /// List the recorded calls that other policies would have decided differently
    WhatIf {
        /// The other policies: a file or a folder; `policy.shadow` by default.
        #[arg(long, value_name = "PATH")]
        policies: Option<PathBuf>,
        /// Only calls that are at most this old: 90m, 12h, 7d.
        #[arg(long, value_name = "TIME", value_parser = span_ms)]
        since: Option<u64>,
        /// Look at this many calls at most, the latest first.
        #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
        limit: u32,
    },
}

/// Reads a span of time as people write it; returns milliseconds.
pub(super) fn span_ms(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and s, m, h or d, such as 7d".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let unit_ms: u64 = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::span_ms;

    #[test]
    fn times_are_a_number_and_a_unit() {
        for (text, expected) in [("7d", 604_800_000), ("90m", 5_400_000), ("1s", 1_000), ("0h", 0)] {
            assert_eq!(span_ms(text), Ok(expected), "{text}");
        }
        for text in ["", "d", "7", "7w", "-1d", "7 d", "99999999999999999999d", "1ü"] {
            assert!(span_ms(text).is_err(), "{text}");
        }
    }
}
