//! A proof that one leaf is in a log (C2SP tlog-proof): the leaf's index, its path to the root, and the signed checkpoint. Anybody who
//! has the leaf and a policy verifies it offline.
//!
//! Deliberately not here: what the leaf says. `extra` is not authenticated by anything: it may carry what is needed to open the leaf's
//! commitments, and the reader who opens them compares.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    checkpoint::parse_decimal,
    merkle::{PATH_HASHES_MAX, PathFault, TreeHash, inclusion_path, verify_inclusion},
    note::{NOTE_BYTES_MAX, SignedNote},
    policy::{LogPolicy, TrustedCheckpoint, UntrustedCheckpoint},
    tile::{TileFault, TileSource, TrustedTiles},
};

/// Bytes of the data that a proof carries along.
pub const EXTRA_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a proof.
pub const PROOF_BYTES_MAX: usize = NOTE_BYTES_MAX + 2 * EXTRA_BYTES_MAX + 64 * PATH_HASHES_MAX;

const FIRST_LINE: &str = "c2sp.org/tlog-proof@v1";

/// A proof, not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogProof {
    /// Data that nothing authenticates. Absent and empty are the same.
    pub extra: Vec<u8>,
    /// The leaf's place in the log.
    pub index: u64,
    /// From the leaf's sibling to the root's child.
    pub path: Vec<TreeHash>,
    /// The checkpoint as the log signed it.
    pub checkpoint: SignedNote,
}

/// Text that is not a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseLogProofError {
    /// Too large.
    #[error(
        "a proof has at most {PROOF_BYTES_MAX} bytes, {PATH_HASHES_MAX} hashes and {EXTRA_BYTES_MAX} bytes of extra data"
    )]
    TooLarge,
    /// Another format.
    #[error("a proof begins with the line `{FIRST_LINE}`")]
    FirstLine,
    /// The extra data.
    #[error("`extra` is followed by base64 of at least one byte")]
    Extra,
    /// The index.
    #[error("`index` is followed by a decimal number without leading zeros")]
    Index,
    /// The path.
    #[error("after the index come hashes of 32 bytes in base64, and a blank line")]
    Path,
    /// The checkpoint.
    #[error("after the blank line comes a signed checkpoint")]
    Checkpoint,
}

/// Why a proof proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogProofFault {
    /// The checkpoint is not trusted.
    #[error(transparent)]
    Checkpoint(#[from] UntrustedCheckpoint),
    /// The leaf is not where the proof says.
    #[error("the leaf is not leaf {index} of the log: {fault}")]
    Path {
        /// Where it should be.
        index: u64,
        /// What is wrong.
        #[source]
        fault: PathFault,
    },
}

impl LogProof {
    /// Makes the proof of a leaf from the tiles of the tree that `checkpoint` signs.
    pub fn make<S: TileSource + ?Sized>(
        tiles: &mut TrustedTiles<'_, S>,
        index: u64,
        checkpoint: SignedNote,
    ) -> Result<Self, TileFault> {
        let size = tiles.size();
        let path = inclusion_path(tiles, index, size)?.ok_or(TileFault::Outside { index, size })?;
        Ok(Self { extra: Vec::new(), index, path, checkpoint })
    }

    /// Checks that a log of the policy contains the leaf, and that enough witnesses saw it.
    pub fn verify(&self, leaf: &[u8], policy: &LogPolicy) -> Result<TrustedCheckpoint, LogProofFault> {
        let trusted = policy.trust(self.checkpoint.to_string().as_bytes())?;
        let (size, root) = (trusted.checkpoint().size(), trusted.checkpoint().root());
        verify_inclusion(TreeHash::of_leaf(leaf), self.index, size, &self.path, root)
            .map_err(|fault| LogProofFault::Path { index: self.index, fault })?;
        Ok(trusted)
    }
}

impl fmt::Display for LogProof {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{FIRST_LINE}")?;
        if !self.extra.is_empty() {
            writeln!(formatter, "extra {}", STANDARD.encode(&self.extra))?;
        }
        writeln!(formatter, "index {}", self.index)?;
        self.path.iter().try_for_each(|hash| writeln!(formatter, "{hash}"))?;
        write!(formatter, "\n{}", self.checkpoint)
    }
}

impl FromStr for LogProof {
    type Err = ParseLogProofError;

    fn from_str(text: &str) -> Result<Self, ParseLogProofError> {
        if text.len() > PROOF_BYTES_MAX {
            return Err(ParseLogProofError::TooLarge);
        }
        // The first blank line ends the path; the checkpoint has one of its own.
        let (head, checkpoint) = text.split_once("\n\n").ok_or(ParseLogProofError::Path)?;
        let mut lines = head.split('\n');
        if lines.next() != Some(FIRST_LINE) {
            return Err(ParseLogProofError::FirstLine);
        }
        let mut line = lines.next().ok_or(ParseLogProofError::Index)?;
        let mut extra = Vec::new();
        if let Some(encoded) = line.strip_prefix("extra ") {
            extra = STANDARD.decode(encoded).map_err(|_| ParseLogProofError::Extra)?;
            match extra.len() {
                0 => return Err(ParseLogProofError::Extra),
                bytes if bytes > EXTRA_BYTES_MAX => return Err(ParseLogProofError::TooLarge),
                _ => line = lines.next().ok_or(ParseLogProofError::Index)?,
            }
        }
        let index = line.strip_prefix("index ").and_then(parse_decimal).ok_or(ParseLogProofError::Index)?;
        let mut path = Vec::new();
        for line in lines {
            if path.len() == PATH_HASHES_MAX {
                return Err(ParseLogProofError::TooLarge);
            }
            path.push(line.parse().map_err(|_| ParseLogProofError::Path)?);
        }
        let checkpoint = checkpoint.parse().map_err(|_| ParseLogProofError::Checkpoint)?;
        Ok(Self { extra, index, path, checkpoint })
    }
}
