//! The salts of a log's commitments: each is derived from one secret of the log and from what the leaf is about, so that leaves about one
//! thing can be compared, and a salt that is shown opens the leaves about one thing and tells nothing about any other.
//!
//! Deliberately not here: where the secret is kept. Without it, every commitment that it
//! salted is a number without meaning.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::commitment::{Commitment, SALT_BYTES};

/// Bytes of the secret.
pub const SALT_SECRET_BYTES: usize = 32;

const DOMAIN: &[u8] = b"servanda/salt/v1\0";

/// The secret that salts are derived from.
#[derive(Clone, PartialEq, Eq)]
pub struct LeafSalts([u8; SALT_SECRET_BYTES]);

/// What a salt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaltedThing {
    /// A call, by its id.
    Call,
    /// A ticket, by its id.
    Ticket,
    /// What a budget holds, by its id.
    BudgetHold,
}

/// The operating system gave no random bytes for the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the operating system gave no random bytes")]
pub struct NoSaltSecret(());

impl LeafSalts {
    /// A new secret.
    pub fn random() -> Result<Self, NoSaltSecret> {
        let mut secret = [0; SALT_SECRET_BYTES];
        aws_lc_rs::rand::fill(&mut secret).map_err(|_| NoSaltSecret(()))?;
        Ok(Self(secret))
    }

    /// The secret as it was kept.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The secret, to be kept.
    pub const fn as_bytes(&self) -> &[u8; SALT_SECRET_BYTES] {
        &self.0
    }

    /// The salt of everything that leaves say about one thing.
    pub fn salt(&self, thing: SaltedThing, id: &str) -> [u8; SALT_BYTES] {
        let thing: &[u8] = match thing {
            SaltedThing::Call => b"call\0",
            SaltedThing::Ticket => b"ticket\0",
            SaltedThing::BudgetHold => b"budget\0",
        };
        // All that precedes the id has a fixed length or an end of its own, so that no two ids give the same bytes.
        Sha256::new().chain_update(DOMAIN).chain_update(self.0).chain_update(thing).chain_update(id).finalize().into()
    }

    /// Commits to something that a leaf says about a thing.
    pub fn commit(&self, thing: SaltedThing, id: &str, content: &[u8]) -> Commitment {
        Commitment::new(&self.salt(thing, id), content)
    }
}

impl fmt::Debug for LeafSalts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LeafSalts(..)")
    }
}
