//! The files of the verifiable log (C2SP tlog-tiles), made from what a store keeps of it. For every store alike.

use servanda_audit::{
    TreeEdge, TreeHash,
    merkle::HASH_BYTES,
    tile::{TILE_HASHES, TilePath, append_to_bundle, leaves_of_bundle},
};

use crate::{LedgerError, codec::unsigned, log_tree::StoredTree};

/// A row of leaves.
#[derive(Debug)]
pub(crate) struct LogRow {
    pub(crate) first: i64,
    pub(crate) count: u32,
    pub(crate) leaves: Vec<u8>,
}

/// The bundle at this address; none if the log has not as many leaves.
pub(crate) fn bundle_of(path: &TilePath, rows: &[LogRow]) -> Result<Option<Vec<u8>>, LedgerError> {
    let (mut next, end) = (path.first_leaf(), path.first_leaf() + u64::from(path.width()));
    let mut bundle = Vec::new();
    for row in rows {
        let damaged = |reason: String| LedgerError::Log(format!("the leaves from {} on: {reason}", row.first));
        let width = u16::try_from(row.count).map_err(|_| damaged("there are too many in one row".to_owned()))?;
        let leaves = leaves_of_bundle(&row.leaves, width).map_err(|error| damaged(error.to_string()))?;
        for (index, leaf) in (unsigned(row.first)..).zip(leaves) {
            if index == next && next < end {
                append_to_bundle(&mut bundle, leaf).map_err(|error| damaged(error.to_string()))?;
                next += 1;
            }
        }
    }
    Ok((next == end).then_some(bundle))
}

/// The tile of hashes at this address: from a full one, or from the tree's right edge. None if the tree has not as many.
pub(crate) fn hashes_of(
    path: &TilePath,
    level: u8,
    full: Option<Vec<u8>>,
    stored: &StoredTree,
) -> Result<Option<Vec<u8>>, LedgerError> {
    let wanted = usize::from(path.width()) * HASH_BYTES;
    let hashes = if let Some(full) = full {
        full
    } else {
        let size = unsigned(stored.size);
        let edge = TreeEdge::from_bytes(size, &stored.edge).map_err(|error| LedgerError::Log(error.to_string()))?;
        let last = TilePath::partial_of_tree(path.kind(), size).map(|partial| partial.index());
        if last != Some(path.index()) || path.width() == TILE_HASHES {
            return Ok(None);
        }
        edge.hashes(level).iter().flat_map(TreeHash::as_bytes).copied().collect()
    };
    Ok(hashes.get(..wanted).map(<[u8]>::to_vec))
}
