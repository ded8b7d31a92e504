//! transparency-dev's vectors of Merkle proofs.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use servanda_audit::{
    TreeHash,
    merkle::{verify_consistency, verify_inclusion},
};
use servanda_requirements::shared;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inclusion {
    leaf_idx: u64,
    tree_size: u64,
    root: String,
    leaf_hash: String,
    proof: Option<Vec<String>>,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consistency {
    size1: u64,
    size2: u64,
    root1: String,
    root2: String,
    proof: Option<Vec<String>>,
    want_err: bool,
}

/// Every JSON file below a folder, by its name.
fn below(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path));
        } else {
            found.insert(path.display().to_string(), std::fs::read_to_string(path).unwrap());
        }
    }
    found
}

fn hash(text: &str) -> Option<TreeHash> {
    text.parse().ok()
}

/// `None` if a hash is not a hash, which our types refuse before a proof is looked at.
fn hashes(texts: Option<Vec<String>>) -> Option<Vec<TreeHash>> {
    texts.unwrap_or_default().iter().map(|text| hash(text)).collect()
}

#[test]
fn inclusion_as_transparency_dev_has_it() {
    let Some(folder) = shared("corpora/tlog-merkle-testdata/testdata/inclusion") else { return };
    let (mut accepted, mut refused) = (0, 0);
    for (name, text) in below(&folder) {
        let vector: Inclusion = serde_json::from_str(&text).unwrap();
        let verified = || {
            let (leaf, root) = (hash(&vector.leaf_hash)?, hash(&vector.root)?);
            verify_inclusion(leaf, vector.leaf_idx, vector.tree_size, &hashes(vector.proof)?, root).ok()
        };
        assert_eq!(verified().is_none(), vector.want_err, "{name}");
        *(if vector.want_err { &mut refused } else { &mut accepted }) += 1;
    }
    assert!(accepted >= 6 && refused >= 80, "{accepted} accepted, {refused} refused");
}

#[test]
fn consistency_as_transparency_dev_has_it() {
    let Some(folder) = shared("corpora/tlog-merkle-testdata/testdata/consistency") else { return };
    let (mut accepted, mut refused) = (0, 0);
    for (name, text) in below(&folder) {
        let vector: Consistency = serde_json::from_str(&text).unwrap();
        if name.ends_with("sizes-are-equal-one-and-proof-is-empty.json") {
            assert!(hash(&vector.root1).is_none(), "accepted there with a root of 12 bytes, which is no hash here");
            continue;
        }
        let verified = || {
            let (earlier, later) = ((vector.size1, hash(&vector.root1)?), (vector.size2, hash(&vector.root2)?));
            verify_consistency(earlier, later, &hashes(vector.proof)?).ok()
        };
        assert_eq!(verified().is_none(), vector.want_err, "{name}");
        *(if vector.want_err { &mut refused } else { &mut accepted }) += 1;
    }
    assert!(accepted >= 5 && refused >= 60, "{accepted} accepted, {refused} refused");
}
