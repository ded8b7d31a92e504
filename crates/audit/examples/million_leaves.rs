//! How long it takes to append, and to verify, a log of a million leaves: `cargo run --release -p servanda-audit --example
//! million_leaves [LEAVES] [LEAF_BYTES]`. The log is in memory; reading a disk is not measured.
#![expect(clippy::print_stdout, reason = "a measurement that people run by hand")]

use std::{collections::BTreeMap, error::Error, time::Instant};

use servanda_audit::{AnyLeaf, LogBuilder, LogPolicy, NoteSigner, tile::CHECKPOINT_PATH, verify_log};

/// Leaves between two checkpoints.
const CUT_LEAVES: u64 = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let leaves = arguments.next().unwrap_or(Ok(1_000_000))?;
    let leaf_bytes = usize::try_from(arguments.next().unwrap_or(Ok(700))?)?;
    let signer = NoteSigner::from_seed("example.org/log".parse()?, &[7; 32])?;
    let (mut log, mut files) = (LogBuilder::default(), BTreeMap::new());

    let start = Instant::now();
    let mut leaf = vec![b'x'; leaf_bytes.max(8)];
    for index in 0..leaves {
        leaf.splice(..8, index.to_be_bytes());
        log.append(&leaf)?;
        if (index + 1) % CUT_LEAVES == 0 || index + 1 == leaves {
            files.extend(log.cut().into_iter().map(|file| (file.path.to_string(), file.bytes)));
            let note = signer.sign(log.checkpoint("example.org/log")?.to_string())?;
            files.insert(CHECKPOINT_PATH.to_owned(), note.to_string().into_bytes());
        }
    }
    let appended = start.elapsed();
    println!("{leaves} leaves of {leaf_bytes} bytes, signed every {CUT_LEAVES}: appended in {appended:.2?}");

    let start = Instant::now();
    let policy = LogPolicy::of_log(signer.verifier().clone());
    let trusted = verify_log(&files, &policy, &[], &mut AnyLeaf)?;
    println!("verified {} leaves in {:.2?}", trusted.checkpoint().size(), start.elapsed());
    Ok(())
}
