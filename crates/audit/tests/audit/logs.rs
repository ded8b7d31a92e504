//! Logs for the tests, in memory.

use std::collections::BTreeMap;

use servanda_audit::{
    Checkpoint, LogBuilder, LogPolicy, NoteSigner, TrustedCheckpoint, builder::LogFile, tile::CHECKPOINT_PATH,
};

pub(crate) const ORIGIN: &str = "example.org/servanda";

/// A log with its files and its signer.
pub(crate) struct TestLog {
    pub(crate) builder: LogBuilder,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) signer: NoteSigner,
}

impl TestLog {
    pub(crate) fn new() -> Self {
        Self { builder: LogBuilder::default(), files: BTreeMap::new(), signer: signer(ORIGIN, 1) }
    }

    /// A log with the leaves `leaf 0`, `leaf 1` and so on.
    pub(crate) fn of(size: u64) -> Self {
        let mut log = Self::new();
        log.append((0..size).map(leaf));
        log.cut();
        log
    }

    pub(crate) fn append(&mut self, leaves: impl Iterator<Item = Vec<u8>>) {
        for leaf in leaves {
            self.builder.append(&leaf).unwrap();
        }
    }

    /// Stores the files and signs the checkpoint, as a sequencer does.
    pub(crate) fn cut(&mut self) -> Vec<LogFile> {
        let files = self.builder.cut();
        for file in &files {
            self.files.insert(file.path.to_string(), file.bytes.clone());
        }
        let note = self.signer.sign(self.checkpoint().to_string()).unwrap();
        self.files.insert(CHECKPOINT_PATH.to_owned(), note.to_string().into_bytes());
        files
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        self.builder.checkpoint(ORIGIN).unwrap()
    }

    pub(crate) fn policy(&self) -> LogPolicy {
        LogPolicy::of_log(self.signer.verifier().clone())
    }

    pub(crate) fn trusted(&self) -> TrustedCheckpoint {
        self.policy().trust(&self.files[CHECKPOINT_PATH]).unwrap()
    }
}

pub(crate) fn leaf(index: u64) -> Vec<u8> {
    format!("leaf {index}").into_bytes()
}

pub(crate) fn signer(name: &str, seed: u8) -> NoteSigner {
    NoteSigner::from_seed(name.parse().unwrap(), &[seed; 32]).unwrap()
}
