//! Anything may be in a file: readers never panic, and what they accept they write again as it was.

use proptest::prelude::*;
use servanda_audit::{
    AnyLeaf, Checkpoint, LogPolicy, LogProof, SignedNote, TilePath, VerifierKey, tile::leaves_of_bundle, verify_log,
};

use super::logs::TestLog;

/// Valid texts of every format, and pieces of them.
fn texts() -> impl Strategy<Value = String> {
    let log = TestLog::of(3);
    let note = String::from_utf8(log.files["checkpoint"].clone()).unwrap();
    let proof = format!("c2sp.org/tlog-proof@v1\nextra AAAA\nindex 1\n{}\n\n{note}", log.checkpoint().root());
    let policy = format!("log {}\nquorum none\n", log.signer.verifier());
    let whole = [note, proof, policy, log.signer.verifier().to_string(), "tile/0/x001/234.p/5".to_owned()];
    (
        proptest::sample::select(whole.to_vec()),
        any::<prop::sample::Index>(),
        0_usize..4,
        "\\PC{0,8}|[\\n\\t +=#0-9A-z/\u{2014}.]{0,8}",
    )
        .prop_map(|(text, at, removed, inserted)| {
            let characters: Vec<char> = text.chars().collect();
            let at = at.index(characters.len());
            let rest = characters[at..].iter().skip(removed);
            characters[..at].iter().chain(inserted.chars().collect::<Vec<_>>().iter()).chain(rest).collect()
        })
}

proptest! {
    #[test]
    fn what_is_read_is_written_as_it_was(text in texts()) {
        if let Ok(note) = text.parse::<SignedNote>() {
            prop_assert_eq!(note.to_string(), &*text);
        }
        if let Ok(proof) = text.parse::<LogProof>() {
            prop_assert_eq!(proof.to_string(), &*text);
        }
        if let Ok(key) = text.parse::<VerifierKey>() {
            prop_assert_eq!(key.to_string(), &*text);
        }
        if let Ok(checkpoint) = text.parse::<Checkpoint>() {
            prop_assert_eq!(checkpoint.to_string(), &*text);
        }
        if let Ok(path) = text.parse::<TilePath>() {
            prop_assert_eq!(path.to_string(), &*text);
        }
        let _ = text.parse::<LogPolicy>();
    }

    #[test]
    fn bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), width in 0_u16..300) {
        let _ = SignedNote::from_bytes(&bytes);
        let _ = LogPolicy::from_bytes(&bytes);
        if let Ok(leaves) = leaves_of_bundle(&bytes, width) {
            prop_assert_eq!(leaves.len(), usize::from(width));
            prop_assert_eq!(leaves.iter().map(|leaf| leaf.len() + 2).sum::<usize>(), bytes.len());
        }
    }

    /// Whatever byte of whatever file changes, or is cut off, the log does not verify.
    #[test]
    fn no_byte_of_a_log_can_be_another_one(file: prop::sample::Index, at: prop::sample::Index, bits in 1_u8.., cut: bool) {
        let log = TestLog::of(520);
        let mut files = log.files.clone();
        let name = files.keys().nth(file.index(files.len())).unwrap().clone();
        let bytes = files.get_mut(&name).unwrap();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= bits;
        }
        let verified = verify_log(&files, &log.policy(), &[], &mut AnyLeaf);
        prop_assert!(verified.is_err(), "{name}, byte {at}");
    }
}
