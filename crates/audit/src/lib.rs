//! The verifiable log: a Merkle tree of leaves in C2SP's formats, the proofs about it, and the check of a whole log offline.
//!
//! - `merkle`: RFC 6962 hashes and proofs.
//! - `tile`: the log's files, and reading that believes nothing but a signed root.
//! - `note`, `checkpoint`: who signed which root.
//! - `policy`: whose signatures are enough.
//! - `proof`: a proof for one leaf, to be verified by anybody.
//! - `edge`: what a store keeps to append with; `builder`: the same for a log that is kept in files.
//! - `verify`: everything recomputed, with a name and a place for each fault.
//! - `leaf`: what the gateway's leaves say, which may follow which, and what opens their commitments.
//! - `search`: leaves by what they are about; `ocsf`: leaves as security events.
//!
//! Everything here takes values and returns values. Deliberately not here: files, sockets, a clock, a store, and when a log is signed.

pub mod builder;
pub mod checkpoint;
pub mod edge;
pub mod leaf;
pub mod merkle;
pub mod note;
pub mod ocsf;
pub mod policy;
pub mod proof;
pub mod search;
pub mod tile;
pub mod verify;

pub use builder::{LogBuilder, LogFile};
pub use checkpoint::Checkpoint;
pub use edge::{FullTile, TreeEdge};
pub use leaf::{AuditLeaf, Commitment, StatePaths};
pub use merkle::TreeHash;
pub use note::{KeyName, NoteSigner, SignedNote, VerifierKey};
pub use policy::{LogPolicy, TrustedCheckpoint};
pub use proof::LogProof;
pub use tile::{TilePath, TileSource, TrustedTiles};
pub use verify::{AnyLeaf, LeafCheck, LogFault, verify_log};
