//! The text of a checkpoint (C2SP tlog-checkpoint): which log, how many leaves, which root.
//!
//! Deliberately not here: its signatures (`note`), and whether anybody should believe it (`policy`).

use std::{fmt, str::FromStr};

use crate::merkle::TreeHash;

/// Bytes of an origin; a cosignature writes its length in one byte.
pub const ORIGIN_BYTES_MAX: usize = 255;
/// Lines of extensions.
pub const EXTENSION_LINES_MAX: usize = 16;
/// Bytes of a line of an extension.
pub const EXTENSION_BYTES_MAX: usize = 1024;

/// The text of a checkpoint. Believe only a `TrustedCheckpoint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    // INVARIANT: no line is empty, too long, or has a control character.
    origin: String,
    size: u64,
    root: TreeHash,
    extensions: Vec<String>,
}

/// What is wrong with the text of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointFault {
    /// Fewer than three lines, or the last one does not end.
    #[error("a checkpoint is an origin, a size and a root hash, each a line")]
    Lines,
    /// The first line.
    #[error("the origin is a line of 1 to {ORIGIN_BYTES_MAX} bytes without control characters")]
    Origin,
    /// The second line.
    #[error("the size is a decimal number without leading zeros")]
    Size,
    /// The third line.
    #[error("the root is 32 bytes in base64")]
    Root,
    /// A later line.
    #[error("extensions are at most {EXTENSION_LINES_MAX} lines of 1 to {EXTENSION_BYTES_MAX} bytes")]
    Extensions,
}

impl Checkpoint {
    /// The checkpoint of a tree.
    pub fn new(origin: &str, size: u64, root: TreeHash) -> Result<Self, CheckpointFault> {
        if !is_line(origin, ORIGIN_BYTES_MAX) {
            return Err(CheckpointFault::Origin);
        }
        Ok(Self { origin: origin.to_owned(), size, root, extensions: Vec::new() })
    }

    /// The log that it is about.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The leaves of the tree.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The root of the tree.
    pub const fn root(&self) -> TreeHash {
        self.root
    }

    /// Lines without a meaning here.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}\n{}\n{}", self.origin, self.size, self.root)?;
        self.extensions.iter().try_for_each(|line| writeln!(formatter, "{line}"))
    }
}

impl FromStr for Checkpoint {
    type Err = CheckpointFault;

    fn from_str(text: &str) -> Result<Self, CheckpointFault> {
        let mut lines = text.strip_suffix('\n').ok_or(CheckpointFault::Lines)?.split('\n');
        let origin = lines.next().ok_or(CheckpointFault::Lines)?;
        let size = lines.next().ok_or(CheckpointFault::Lines)?;
        let root = lines.next().ok_or(CheckpointFault::Lines)?;
        let size = parse_decimal(size).ok_or(CheckpointFault::Size)?;
        let root = root.parse().map_err(|_| CheckpointFault::Root)?;
        let mut checkpoint = Self::new(origin, size, root)?;
        for line in lines {
            if checkpoint.extensions.len() == EXTENSION_LINES_MAX || !is_line(line, EXTENSION_BYTES_MAX) {
                return Err(CheckpointFault::Extensions);
            }
            checkpoint.extensions.push(line.to_owned());
        }
        Ok(checkpoint)
    }
}

/// A decimal number without a sign or leading zeros.
pub(crate) fn parse_decimal(text: &str) -> Option<u64> {
    let is_plain = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    if is_plain { text.parse().ok() } else { None }
}

/// Whether this is a line of 1 to `bytes_max` bytes without ASCII control characters.
fn is_line(text: &str, bytes_max: usize) -> bool {
    !text.is_empty() && text.len() <= bytes_max && text.bytes().all(|byte| byte >= 0x20)
}
