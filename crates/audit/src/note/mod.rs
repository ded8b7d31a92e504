//! Signed notes (C2SP signed-note) and the signatures that a log and its witnesses make: Ed25519 (`0x01`), timestamped cosignatures by
//! Ed25519 (`0x04`) and by ML-DSA-44 (`0x06`).
//!
//! Signatures of keys that are not known are ignored, as the specification says; one of a known key that does not verify refuses the
//! whole note. Deliberately not here: which keys should be known, and how many have to sign (`policy`).

mod key;
mod name;
mod signed;
mod signer;
#[cfg(test)]
mod tests;

pub use key::{Endorsement, SignatureKind, VerifierKey, VerifierKeyFault};
pub use name::{KEY_NAME_BYTES_MAX, KeyId, KeyName, KeyNameFault};
pub use signed::{NOTE_BYTES_MAX, NoteFault, NoteSignature, SIGNATURE_BYTES_MAX, SIGNATURES_MAX, SignedNote};
pub use signer::{NoteSigner, NoteSigningFault, SEED_BYTES};
