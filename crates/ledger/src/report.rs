//! What is told about a ledger to those who look after it, for every store alike: how it stands, whether it is sound, what its log holds.
//!
//! Deliberately not here: finding it out.

use std::{fmt, path::PathBuf};

use crate::identity::{Adoption, LedgerPosition, RefusedLedger};

/// How a ledger stands.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LedgerStatus {
    /// Why a gateway would not start with it.
    #[serde(skip)]
    pub refused: Option<RefusedLedger>,
    /// Whether there is a ledger.
    pub exists: bool,
    /// Its schema version, where there is one that can be read.
    pub schema_version: Option<u32>,
    /// The schema version that this servanda needs.
    pub schema_needed: u32,
    /// What the ledger says.
    pub position: Option<LedgerPosition>,
    /// What the file outside says.
    pub known: Option<LedgerPosition>,
    /// Whether the last process ended as it should, by that file.
    pub ended_cleanly: Option<bool>,
    /// Whether a process has it open for writing, where that can be seen.
    pub in_use: Option<bool>,
    /// The size of the file.
    pub bytes: Option<u64>,
    /// The size of its write-ahead log.
    pub log_bytes: Option<u64>,
    /// What that log holds, if no process writes it.
    pub log: Option<LogReport>,
    /// When a person accepted it, the latest first.
    pub adoptions: Vec<Adoption>,
}

/// What a ledger was found to be.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct LedgerVerification {
    /// Effects that were read.
    pub effects: u64,
    /// Records of calls that were read.
    pub calls: u64,
    /// What is wrong; not all of it if it is much.
    pub problems: Vec<String>,
}

/// What bringing a ledger up to date would do.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MigrationPlan {
    /// The version that was found; zero if there is no ledger.
    pub found: u32,
    /// The version that this servanda needs.
    pub needed: u32,
    /// Where it would be copied to first.
    pub backup: Option<PathBuf>,
    /// How large that copy would be at the most.
    pub backup_bytes: Option<u64>,
}

/// A ledger that was put back or accepted.
#[derive(Debug, Clone)]
pub struct LedgerRestoration {
    /// Where the one is that was there before.
    pub set_aside: Option<PathBuf>,
    /// That it was accepted; none if it lacks nothing that was known.
    pub adoption: Option<Adoption>,
}

/// What a test of writing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Soundness {
    /// Everything that was looked at is sound.
    Sound,
    /// It is too large to be looked through in the time there was.
    TooLarge,
    /// It is not sound.
    Broken(String),
}

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LogReport {
    /// Frames of the log's present turn, good or bad; what follows is left over from an earlier one.
    pub frames: u64,
    /// Frames that fit, from the beginning.
    pub frames_valid: u64,
    /// Commits among them.
    pub commits_valid: u64,
    /// Frames behind the first bad one that say they end a commit.
    pub commits_behind: u64,
    /// Where and why reading stops before the end of the log's turn.
    pub stop: Option<LogStop>,
}

/// Why a log is not read further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStop {
    /// The header is not one.
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
            Some(LogStop::Header) => return formatter.write_str("; its header is not one"),
            Some(LogStop::Checksum(frame)) => write!(formatter, "; frame {frame} fails its checksum")?,
            Some(LogStop::Cut(frame)) => write!(formatter, "; it is cut off inside frame {frame}")?,
        }
        if *commits_behind > 0 { write!(formatter, ", and {commits_behind} commits from there on") } else { Ok(()) }
    }
}
