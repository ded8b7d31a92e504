//! Credentials for upstreams: builds the sources that the configuration names, and reports which secrets they need and lack.
//!
//! Values only pass through from the vault to the upstream. Nothing here prints, keeps or compares one for longer than that takes.

mod oauth;
mod statement;
mod stored_secret;

use std::{path::Path, sync::Arc};

use servanda_authn::{
    ClientSecretSource,
    attestation_keys::{ATTESTATION_PURPOSE, AttestationKeyStore},
    log_key::LogKeyStore,
    root_keys::{ROOTS_PURPOSE, RootKeyStore, SealingKeySource},
};
use servanda_authority::{Secret, scrubber::SECRET_BYTES_MIN, sealing::SealingKey};
use servanda_config::{CredentialConfig, LoadedConfig, NamedSecret, OidcConfig, UpstreamConfig};
use servanda_contract::time::Clock as _;
use servanda_effects::{Notebook, PortFuture};
use servanda_engine::SystemClock;
use servanda_upstream::{CredentialSource, Transport, Upstream, UpstreamSpec};
use servanda_vault::{KEY_VARIABLE, LocalStore, SecretError, SecretReference, Vault};

pub(crate) use oauth::{VaultOauthTerms, login_store};
pub(crate) use statement::published_keys;

use self::{statement::StatementCredentialSource, stored_secret::SecretCredentialSource};
use crate::failure::CommandFailure;

/// A secret that an upstream needs, or the console.
#[derive(Debug)]
pub(crate) struct NeededSecret {
    /// Which upstream; none if it is the console, for people who sign in through an identity provider.
    pub upstream: Option<String>,
    /// Which secret.
    pub secret: SecretReference,
    /// Why it is missing, if it is.
    pub lack: Option<SecretError>,
}

/// Where a configuration's secrets are kept.
pub(crate) fn vault(loaded: &LoadedConfig) -> Vault {
    vault_in(&loaded.folder, &loaded.state_folder())
}

/// The vault of a configuration in that folder: secrets relative to it, and the encrypted store in its state folder.
pub(crate) fn vault_in(folder: &Path, state_folder: &Path) -> Vault {
    let given = std::env::var_os(KEY_VARIABLE).map(|key| Secret::new(key.into_encoded_bytes()));
    Vault::new(folder, Some(Arc::new(LocalStore::new(state_folder, given))))
}

/// The root keys of agent credentials, sealed with a key of the encrypted store.
pub(crate) fn root_keys(loaded: &LoadedConfig, notebook: Arc<dyn Notebook>) -> RootKeyStore {
    RootKeyStore::new(notebook, sealing_keys(loaded))
}

/// The keys that sign what people decide, sealed with a key of the encrypted store.
pub(crate) fn attestation_keys(loaded: &LoadedConfig, notebook: Arc<dyn Notebook>) -> Arc<AttestationKeyStore> {
    Arc::new(AttestationKeyStore::new(notebook, sealing_keys(loaded), Arc::new(SystemClock)))
}

/// The key that signs the verifiable log, sealed with a key of the encrypted store.
pub(crate) fn log_key(loaded: &LoadedConfig, notebook: Arc<dyn Notebook>) -> LogKeyStore {
    LogKeyStore::new(notebook, sealing_keys(loaded), Arc::new(SystemClock))
}

/// The source of the key that root keys are sealed with.
pub(crate) fn sealing_keys(loaded: &LoadedConfig) -> Arc<dyn SealingKeySource> {
    Arc::new(VaultSealingKeys(vault(loaded)))
}

/// An upstream with all its credentials. Logins are kept in the notebook.
pub(crate) fn upstream(
    loaded: &LoadedConfig,
    config: &UpstreamConfig,
    spec: UpstreamSpec,
    notebook: Arc<dyn Notebook>,
) -> Result<Upstream, CommandFailure> {
    let sources = sources(loaded, config, &spec, &notebook)?;
    Ok(Upstream::with_credentials(spec, notebook, sources))
}

/// The place of the secret of the identity provider's client.
pub(crate) fn client_secrets(loaded: &LoadedConfig) -> Arc<dyn ClientSecretSource> {
    Arc::new(VaultClientSecrets(vault(loaded)))
}

/// Every secret that a person has to set, and whether it can be used.
pub(crate) fn needed(loaded: &LoadedConfig) -> Vec<NeededSecret> {
    let vault = vault(loaded);
    let provider = loaded.config.console.sign_in.oidc.as_ref().and_then(OidcConfig::secret);
    let of_console = provider.map(|secret| NeededSecret { upstream: None, lack: lack(&vault, &secret, false), secret });
    let all = loaded.config.upstreams.iter().flat_map(|(id, upstream)| {
        upstream.credential.iter().flat_map(CredentialConfig::secrets).map(move |secret| (id.clone(), secret))
    });
    let of_upstreams = all.map(|(upstream, NamedSecret { reference, shown })| {
        let lack = lack(&vault, &reference, shown);
        NeededSecret { upstream: Some(upstream), secret: reference, lack }
    });
    of_upstreams.chain(of_console).collect()
}

/// Why a secret cannot be used. A secret that is sent to the upstream must be long enough to be found in its answers.
fn lack(vault: &Vault, reference: &SecretReference, shown: bool) -> Option<SecretError> {
    match vault.get(reference) {
        Ok(secret) if shown && secret.expose().len() < SECRET_BYTES_MIN => {
            Some(SecretError::TooShort { reference: reference.clone(), bytes_min: SECRET_BYTES_MIN })
        }
        Ok(_) => None,
        Err(lack) => Some(lack),
    }
}

/// Keys of the encrypted store.
#[derive(Debug)]
struct VaultSealingKeys(Vault);

impl VaultSealingKeys {
    fn derived(&self, purpose: &'static str) -> Result<SealingKey, String> {
        let store = self.0.local().ok_or("there is no encrypted store for the gateway's own keys")?;
        let key = store.derived(purpose, SystemClock.now()).map_err(|fault| format!("{fault}; {}", fault.hint()))?;
        SealingKey::new(purpose, &key).map_err(|error| error.to_string())
    }
}

impl SealingKeySource for VaultSealingKeys {
    fn roots_key(&self) -> Result<SealingKey, String> {
        self.derived(ROOTS_PURPOSE)
    }

    fn attestation_key(&self) -> Result<SealingKey, String> {
        self.derived(ATTESTATION_PURPOSE)
    }
}

/// Secrets of the identity provider's client, looked up when a person signs in.
#[derive(Debug)]
struct VaultClientSecrets(Vault);

impl ClientSecretSource for VaultClientSecrets {
    fn secret<'a>(&'a self, reference: &'a str) -> PortFuture<'a, Result<Secret, String>> {
        Box::pin(async move {
            let (vault, reference) = (self.0.clone(), reference.parse::<SecretReference>());
            let reference = reference.map_err(|error| error.to_string())?;
            let found = tokio::task::spawn_blocking(move || vault.get(&reference)).await;
            let found = found.map_err(|_| "the secret could not be looked up".to_owned())?;
            found.map_err(|lack| format!("{lack}; {}", lack.hint()))
        })
    }
}

/// The credential sources of an upstream, from its configuration. No request is made yet.
pub(crate) fn sources(
    loaded: &LoadedConfig,
    config: &UpstreamConfig,
    spec: &UpstreamSpec,
    notebook: &Arc<dyn Notebook>,
) -> Result<Vec<Arc<dyn CredentialSource>>, CommandFailure> {
    let vault = vault(loaded);
    let mut sources: Vec<Arc<dyn CredentialSource>> = Vec::with_capacity(config.credential.len());
    for credential in &config.credential {
        match (&credential.statement, &credential.oauth, &spec.transport) {
            (Some(statement), ..) => {
                sources.push(Arc::new(StatementCredentialSource::new(vault.clone(), statement, config.url.as_deref())));
            }
            (None, Some(oauth), Transport::Http { url, .. }) => {
                let terms = VaultOauthTerms::new(spec.id.as_str(), url, oauth, vault.clone())?;
                sources.push(oauth::source(terms, Arc::clone(notebook))?);
            }
            _ => sources
                .extend(SecretCredentialSource::new(vault.clone(), credential).map(|source| Arc::new(source) as _)),
        }
    }
    Ok(sources)
}
