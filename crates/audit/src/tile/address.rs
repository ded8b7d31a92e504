//! The addresses of a log's files: `tile/<L>/<N>[.p/<W>]` and `tile/entries/<N>[.p/<W>]`.
//!
//! Deliberately not here: what the files contain.

use std::{fmt, str::FromStr};

/// Levels of the tree that one tile spans.
pub const TILE_HEIGHT: u32 = 8;
/// Hashes of a full tile, and entries of a full bundle.
pub const TILE_HASHES: u16 = 256;
/// Levels of tiles that a tree of 64-bit size has.
pub const TILE_LEVELS: u8 = 8;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TileKind {
    /// The leaves.
    Entries,
    /// Hashes; on level 0 those of leaves, on every other those of full tiles of the level below.
    Hashes {
        /// The level.
        level: u8,
    },
}

/// The address of a tile or of a bundle of entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TilePath {
    // INVARIANT: the level is below `TILE_LEVELS`, the width from 1 to `TILE_HASHES`.
    kind: TileKind,
    index: u64,
    width: u16,
}

/// Text that is not the address of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a tile's path is `tile/<level>/<index>` or `tile/entries/<index>`, with `.p/<width>` if it is partial")]
pub struct ParseTilePathError(());

impl TileKind {
    /// The leaves or hashes that all files of this kind have together in a tree of `size` leaves.
    fn count(self, size: u64) -> u64 {
        match self {
            Self::Entries => size,
            Self::Hashes { level } => size.checked_shr(TILE_HEIGHT * u32::from(level)).unwrap_or(0),
        }
    }
}

impl TilePath {
    /// The file with this index that has `width` hashes or leaves. `None` if there is no such level or width.
    pub const fn new(kind: TileKind, index: u64, width: u16) -> Option<Self> {
        let is_level = match kind {
            TileKind::Entries => true,
            TileKind::Hashes { level } => level < TILE_LEVELS,
        };
        if is_level && width > 0 && width <= TILE_HASHES { Some(Self { kind, index, width }) } else { None }
    }

    /// The file with this index in a tree of `size` leaves: full, or as wide as the tree. `None` if the tree has none.
    pub fn of_tree(kind: TileKind, index: u64, size: u64) -> Option<Self> {
        let before = index.checked_mul(u64::from(TILE_HASHES))?;
        let width = kind.count(size).checked_sub(before)?.min(u64::from(TILE_HASHES));
        Self::new(kind, index, u16::try_from(width).ok()?)
    }

    /// The last file of a tree of `size` leaves if it is partial. `None` if all files of this kind are full.
    pub fn partial_of_tree(kind: TileKind, size: u64) -> Option<Self> {
        Self::of_tree(kind, kind.count(size) / u64::from(TILE_HASHES), size)
    }

    /// What the file contains.
    pub const fn kind(&self) -> TileKind {
        self.kind
    }

    /// Its place among the files of its kind.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Its hashes or leaves.
    pub const fn width(&self) -> u16 {
        self.width
    }

    /// Whether a later, wider file replaces this one.
    pub const fn is_partial(&self) -> bool {
        self.width < TILE_HASHES
    }

    /// The full file with the same index.
    #[must_use]
    pub const fn full(self) -> Self {
        Self { width: TILE_HASHES, ..self }
    }

    /// The first leaf that it spans.
    pub fn first_leaf(&self) -> u64 {
        self.leaf_at(0)
    }

    /// The first leaf below the hash at `position`.
    pub(crate) fn leaf_at(&self, position: u16) -> u64 {
        let level = match self.kind {
            TileKind::Entries => 0,
            TileKind::Hashes { level } => level,
        };
        let hash = self.index.saturating_mul(u64::from(TILE_HASHES)).saturating_add(u64::from(position));
        hash.saturating_mul(1 << (TILE_HEIGHT * u32::from(level)))
    }
}

impl fmt::Display for TilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TileKind::Entries => formatter.write_str("tile/entries/")?,
            TileKind::Hashes { level } => write!(formatter, "tile/{level}/")?,
        }
        write_index(formatter, self.index / 1000)?;
        write!(formatter, "{:03}", self.index % 1000)?;
        if self.is_partial() { write!(formatter, ".p/{}", self.width) } else { Ok(()) }
    }
}

impl fmt::Debug for TilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The parts of an index before its last three digits.
fn write_index(formatter: &mut fmt::Formatter<'_>, thousands: u64) -> fmt::Result {
    if thousands == 0 {
        return Ok(());
    }
    write_index(formatter, thousands / 1000)?;
    write!(formatter, "x{:03}/", thousands % 1000)
}

impl FromStr for TilePath {
    type Err = ParseTilePathError;

    fn from_str(text: &str) -> Result<Self, ParseTilePathError> {
        // What is read is written again: only the one spelling of an address is accepted.
        parse(text).filter(|path| path.to_string() == text).ok_or(ParseTilePathError(()))
    }
}

fn parse(text: &str) -> Option<TilePath> {
    let rest = text.strip_prefix("tile/")?;
    let (kind, rest) = rest.split_once('/')?;
    let kind = if kind == "entries" { TileKind::Entries } else { TileKind::Hashes { level: kind.parse().ok()? } };
    let (index, width) = match rest.split_once(".p/") {
        Some((index, width)) => (index, width.parse().ok()?),
        None => (rest, TILE_HASHES),
    };
    let number = index.split('/').try_fold(0_u64, |number, part| {
        let digits: u64 = part.trim_start_matches('x').parse().ok()?;
        number.checked_mul(1000)?.checked_add(digits)
    })?;
    TilePath::new(kind, number, width)
}
