//! Reports about a ledger for its operators, for every store alike: its status, whether it is sound, what its
//! log holds.
//!
//! Deliberately not here: finding these things out.

use std::{fmt, path::PathBuf};

use crate::identity::{Adoption, LedgerPosition, RefusedLedger};

/// The status of a ledger.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LedgerStatus {
    /// Why a gateway would not start with it.
    #[serde(skip)]
    pub refused: Option<RefusedLedger>,
    /// Whether there is a ledger.
    pub exists: bool,
    /// Its schema version, if it can be read.
    pub schema_version: Option<u32>,
    /// The schema version that this servanda needs.
    pub schema_needed: u32,
    /// The position that the ledger itself states.
    pub position: Option<LedgerPosition>,
    /// The position that the position file states.
    pub known: Option<LedgerPosition>,
    /// Whether the last process ended cleanly, according to the position file.
    pub ended_cleanly: Option<bool>,
    /// Whether a process has it open for writing, if that can be seen.
    pub in_use: Option<bool>,
    /// The size of the file.
    pub bytes: Option<u64>,
    /// The size of its write-ahead log.
    pub log_bytes: Option<u64>,
    /// What the log holds, if no process is writing it.
    pub log: Option<LogReport>,
    /// The times a person accepted it, latest first.
    pub adoptions: Vec<Adoption>,
}

/// The result of reading a whole ledger.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct LedgerVerification {
    /// Effects that were read.
    pub effects: u64,
    /// Records of calls that were read.
    pub calls: u64,
    /// What is wrong; only the first problems if there are many.
    pub problems: Vec<String>,
}

/// What bringing a ledger up to date would do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MigrationPlan {
    /// The version that was found; zero if there is no ledger.
    pub found: u32,
    /// The version that this servanda needs.
    pub needed: u32,
    /// Where a copy would be made first.
    pub backup: Option<PathBuf>,
    /// The largest size that copy can have.
    pub backup_bytes: Option<u64>,
}

/// The result of restoring or accepting a ledger.
#[derive(Debug, Clone)]
pub struct LedgerRestoration {
    /// Where the previous ledger is now.
    pub set_aside: Option<PathBuf>,
    /// The acceptance; none if nothing known is missing from the ledger.
    pub adoption: Option<Adoption>,
}

/// The result of a write test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Soundness {
    /// Everything that was checked is sound.
    Sound,
    /// The ledger is too large to be checked in the time given.
    TooLarge,
    /// It is not sound.
    Broken(String),
}

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LogReport {
    /// Frames of the log's current cycle, good or bad. What follows them is left over from an earlier cycle.
    pub frames: u64,
    /// Frames whose checksums fit, from the beginning.
    pub frames_valid: u64,
    /// Commits among them.
    pub commits_valid: u64,
    /// Frames after the first bad one that claim to end a commit.
    pub commits_behind: u64,
    /// Where and why reading stops before the end of the cycle.
    pub stop: Option<LogStop>,
}

/// Why the rest of a log is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStop {
    /// The header is invalid.
    Header,
    /// This frame, counted from one, fails its checksum.
    Checksum(u64),
    /// The file ends inside this frame.
    Cut(u64),
}

impl fmt::Display for LogReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, commits_valid, commits_behind, .. } = self;
        write!(formatter, "the write-ahead log holds {commits_valid} valid commits in {frames} frames")?;
        match self.stop {
            None => return Ok(()),
            Some(LogStop::Header) => return formatter.write_str("; its header is invalid"),
            Some(LogStop::Checksum(frame)) => write!(formatter, "; frame {frame} fails its checksum")?,
            Some(LogStop::Cut(frame)) => write!(formatter, "; it is cut off inside frame {frame}")?,
        }
        if *commits_behind > 0 { write!(formatter, ", and {commits_behind} commits from there on") } else { Ok(()) }
    }
}
