//! Where the keys come from that sign decisions and warrants. A port: the binary keeps them sealed in the ledger, so that every gateway that
//! shares the ledger has the same ones.

use std::{fmt, sync::Arc};

use servanda_authority::{
    Secret,
    attestation::{ATTESTATION_SEED_BYTES, AttestationKey, AttestationPublicKey},
};
use servanda_effects::PortFuture;

/// The keys with which a gateway signs what people decide.
pub trait AttestationKeys: Send + Sync + fmt::Debug {
    /// The key that signs now.
    fn signing_key(&self) -> PortFuture<'_, Result<Arc<AttestationKey>, AttestationKeysError>>;

    /// The published halves of every key whose signatures count, the present one first.
    fn public_keys(&self) -> PortFuture<'_, Result<Vec<AttestationPublicKey>, AttestationKeysError>>;
}

/// The keys cannot be had at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the keys of approvals cannot be read: {0}")]
pub struct AttestationKeysError(pub String);

/// A key that lasts as long as the process, for one-off commands and for tests.
#[derive(Debug)]
pub struct EphemeralAttestationKeys(Result<Arc<AttestationKey>, AttestationKeysError>);

impl EphemeralAttestationKeys {
    /// A new key.
    pub fn new() -> Self {
        let seed = Secret::random(ATTESTATION_SEED_BYTES).map_err(|error| error.to_string());
        let key = seed.and_then(|seed| AttestationKey::from_seed(&seed).map_err(|error| error.to_string()));
        Self(key.map(Arc::new).map_err(AttestationKeysError))
    }
}

impl Default for EphemeralAttestationKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl AttestationKeys for EphemeralAttestationKeys {
    fn signing_key(&self) -> PortFuture<'_, Result<Arc<AttestationKey>, AttestationKeysError>> {
        Box::pin(std::future::ready(self.0.clone()))
    }

    fn public_keys(&self) -> PortFuture<'_, Result<Vec<AttestationPublicKey>, AttestationKeysError>> {
        let keys = self.0.as_ref().map(|key| vec![key.public().clone()]).map_err(Clone::clone);
        Box::pin(std::future::ready(keys))
    }
}
