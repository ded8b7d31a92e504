//! What people may type after `servanda policy`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// What can be done about policies.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Print the schema that policies are written against, in Cedar's language
    Schema,
    /// Try the cases of a file: calls with the decision that is expected of them
    Test {
        /// The cases, YAML or JSON.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// These policies instead of the configuration's: a file or a folder.
        #[arg(long, value_name = "PATH")]
        policies: Option<PathBuf>,
    },
    /// Say which policies made the difference to a recorded call, and what the present ones would say
    Explain {
        /// The call, or the beginning of its id.
        #[arg(value_name = "CALL_ID")]
        call_id: String,
        /// The call's arguments as JSON, which no record keeps; `-` reads them from stdin.
        #[arg(long, value_name = "FILE")]
        arguments: Option<PathBuf>,
    },
    /// Say which recorded calls other policies would have decided otherwise
    WhatIf {
        /// The other policies: a file or a folder; those of `policy.shadow` if not said.
        #[arg(long, value_name = "PATH")]
        policies: Option<PathBuf>,
        /// Only calls of this long ago at the most: 90m, 12h, 7d.
        #[arg(long, value_name = "TIME", value_parser = span_ms)]
        since: Option<u64>,
        /// Look at so many calls at the most, the latest.
        #[arg(long, value_name = "NUMBER", default_value_t = 10_000)]
        limit: u32,
    },
}

/// A time as people write it, in milliseconds.
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
