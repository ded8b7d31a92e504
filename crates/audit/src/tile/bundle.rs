//! Bundles of entries: up to 256 leaves, each preceded by its length in two bytes.
//!
//! Deliberately not here: what a leaf says.

/// Bytes of a leaf; its length is written in two bytes.
pub const LEAF_BYTES_MAX: usize = 65_535;
/// Bytes of the largest bundle.
pub const BUNDLE_BYTES_MAX: usize = 256 * (2 + LEAF_BYTES_MAX);

/// What is wrong with a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    /// A leaf's length is more than what is left of the file, or only half a length is left.
    #[error("the bundle ends within leaf {position} of it")]
    CutOff {
        /// Which leaf of the bundle.
        position: usize,
    },
    /// Other than the address says.
    #[error("the bundle has {found} leaves and should have {expected}")]
    Count {
        /// The leaves that the address says.
        expected: usize,
        /// The leaves that there are.
        found: usize,
    },
    /// A leaf that no bundle can hold.
    #[error("a leaf has {bytes} bytes and may have {LEAF_BYTES_MAX}")]
    LeafTooLarge {
        /// The leaf's bytes.
        bytes: usize,
    },
}

/// Appends a leaf to the bytes of a bundle.
pub fn append_to_bundle(bundle: &mut Vec<u8>, leaf: &[u8]) -> Result<(), BundleFault> {
    let length = u16::try_from(leaf.len()).map_err(|_| BundleFault::LeafTooLarge { bytes: leaf.len() })?;
    bundle.extend(length.to_be_bytes());
    bundle.extend(leaf);
    Ok(())
}

/// The leaves of a bundle that has `width` of them.
pub fn leaves_of_bundle(bundle: &[u8], width: u16) -> Result<Vec<&[u8]>, BundleFault> {
    let expected = usize::from(width);
    let mut leaves = Vec::with_capacity(expected);
    let mut rest = bundle;
    while !rest.is_empty() {
        let cut_off = BundleFault::CutOff { position: leaves.len() };
        let (length, after) = rest.split_first_chunk().ok_or(cut_off)?;
        let (leaf, after) = after.split_at_checked(u16::from_be_bytes(*length).into()).ok_or(cut_off)?;
        if leaves.len() == expected {
            return Err(BundleFault::Count { expected, found: expected + count(rest) });
        }
        leaves.push(leaf);
        rest = after;
    }
    if leaves.len() < expected {
        return Err(BundleFault::Count { expected, found: leaves.len() });
    }
    Ok(leaves)
}

/// The leaves that follow, as far as they are whole.
fn count(mut rest: &[u8]) -> usize {
    let mut found = 0;
    while let Some((length, after)) = rest.split_first_chunk()
        && let Some((_, after)) = after.split_at_checked(u16::from_be_bytes(*length).into())
    {
        (rest, found) = (after, found + 1);
    }
    found
}
