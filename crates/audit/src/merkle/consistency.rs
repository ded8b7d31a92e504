//! Proofs that one tree begins with the leaves of another: RFC 6962 2.1.2 makes them, RFC 9162 2.1.4.2 verifies them.

use super::{
    PATH_HASHES_MAX, PathFault, TreeHash,
    subtree::{LeafRange, SubtreeHashes},
};

/// The path from the tree of `earlier` leaves to the tree of `later` leaves. `None` if the earlier one is larger.
///
/// Every tree begins with the empty one, so the path from it has no hashes.
pub fn consistency_path<S: SubtreeHashes>(
    hashes: &mut S,
    earlier: u64,
    later: u64,
) -> Result<Option<Vec<TreeHash>>, S::Fault> {
    if earlier > later {
        return Ok(None);
    }
    if earlier == 0 || earlier == later {
        return Ok(Some(Vec::new()));
    }
    let mut range = LeafRange { start: 0, end: later };
    let mut path = Vec::new();
    while range.end != earlier {
        let (next, sibling) =
            if earlier <= range.middle() { (range.left(), range.right()) } else { (range.right(), range.left()) };
        path.push(sibling.hash(hashes)?);
        range = next;
    }
    // The verifier knows the earlier root; it needs the hash only where that is not the whole earlier tree.
    if range.start != 0 {
        path.push(range.hash(hashes)?);
    }
    path.reverse();
    Ok(Some(path))
}

/// Checks that the tree of `later` leaves begins with the tree of `earlier` leaves.
pub fn verify_consistency(
    (earlier, earlier_root): (u64, TreeHash),
    (later, later_root): (u64, TreeHash),
    path: &[TreeHash],
) -> Result<(), PathFault> {
    if earlier > later {
        return Err(PathFault::Backwards { earlier, later });
    }
    let wrong_length = PathFault::Length { hashes: path.len() };
    if earlier == 0 || earlier == later {
        return match () {
            () if !path.is_empty() => Err(wrong_length),
            () if earlier == later && earlier_root != later_root => Err(PathFault::OtherRoot),
            () if earlier == 0 && earlier_root != TreeHash::of_empty_tree() => Err(PathFault::OtherEarlierRoot),
            () => Ok(()),
        };
    }
    if path.len() > PATH_HASHES_MAX {
        return Err(wrong_length);
    }
    // A complete earlier tree is a node of the later one, and the path omits it.
    let first = if earlier.is_power_of_two() { Some(&earlier_root) } else { None };
    let mut rest = first.into_iter().chain(path).copied();
    let Some(start) = rest.next() else { return Err(wrong_length) };
    let skipped = (earlier - 1).trailing_ones();
    // The places of the last leaves of both trees, level by level. `earlier < later` keeps both shifts below 64.
    let (mut place, mut last) = ((earlier - 1) >> skipped, (later - 1) >> skipped);
    let (mut earlier_hash, mut later_hash) = (start, start);
    for sibling in rest {
        if last == 0 {
            return Err(wrong_length);
        }
        if place % 2 == 1 || place == last {
            earlier_hash = TreeHash::of_node(sibling, earlier_hash);
            later_hash = TreeHash::of_node(sibling, later_hash);
            while place % 2 == 0 && place != 0 {
                (place, last) = (place / 2, last / 2);
            }
        } else {
            later_hash = TreeHash::of_node(later_hash, sibling);
        }
        (place, last) = (place / 2, last / 2);
    }
    match () {
        () if last != 0 => Err(wrong_length),
        () if earlier_hash != earlier_root => Err(PathFault::OtherEarlierRoot),
        () if later_hash != later_root => Err(PathFault::OtherRoot),
        () => Ok(()),
    }
}
