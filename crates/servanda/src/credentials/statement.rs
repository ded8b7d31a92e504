//! The invocation credential: a statement about one call, made when the call is sent and valid for as long as the call may take.
//!
//! Two kinds of calls carry no statement: calls that the gateway resumes from its records, because the caller's credential is no longer
//! checked, and calls that the gateway makes for itself.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use servanda_authority::{
    RequiredRights, Secret,
    caller::RevocationStatus,
    invocation::{self, INVOCATION_LIFETIME_MS_MAX, Invocation, StatementKey},
};
use servanda_config::StatementConfig;
use servanda_contract::{digest::hex, time::Clock as _};
use servanda_effects::PortFuture;
use servanda_engine::SystemClock;
use servanda_upstream::{
    CallRequirements, CredentialCall, CredentialRejection, CredentialRequest, CredentialSource, MissingCredential,
    PresentedCredentials, Remedy,
};
use servanda_vault::{SecretStoreError, Vault};
use sha2::{Digest as _, Sha256};

use crate::failure::CommandFailure;

/// The name of the key in the store.
const KEY_NAME: &str = "statement-key";
const SEED_BYTES: usize = 32;
/// Added to a call's deadline, because clocks differ.
const SLACK_MS: u64 = 5_000;

/// Statements for one upstream.
#[derive(Debug)]
pub(super) struct StatementCredentialSource {
    vault: Vault,
    header: String,
    issuer: String,
    audience: Option<String>,
    key: OnceLock<Arc<StatementKey>>,
}

/// The public halves of the keys that statements are signed with, as a JWK set. Makes the key if there is none.
pub(crate) fn published_keys(vault: &Vault) -> Result<Value, CommandFailure> {
    let key = key_of(vault).map_err(|fault| CommandFailure::failed(fault.to_string()).hint(fault.hint()))?;
    let key = key.ok_or_else(|| CommandFailure::failed("the value in the store is not a key"))?;
    Ok(invocation::published_keys(&[&key]))
}

/// The key; none if the stored value is not a key.
pub(super) fn key_of(vault: &Vault) -> Result<Option<StatementKey>, SecretStoreError> {
    let Some(store) = vault.local() else { return Ok(None) };
    let seed = store.own(KEY_NAME, SEED_BYTES, SystemClock.now())?;
    let hash = Sha256::new().chain_update(b"servanda/statement-key").chain_update(seed.expose()).finalize();
    let kid = hex(hash.get(..8).unwrap_or_default());
    Ok(StatementKey::from_seed(&kid, &seed).ok())
}

impl StatementCredentialSource {
    pub(super) fn new(vault: Vault, config: &StatementConfig, url: Option<&str>) -> Self {
        let audience = config.audience.clone().or_else(|| url.map(str::to_owned));
        Self { vault, header: config.header.clone(), issuer: config.issuer.clone(), audience, key: OnceLock::new() }
    }

    async fn key(&self) -> Result<Arc<StatementKey>, MissingCredential> {
        if let Some(key) = self.key.get() {
            return Ok(Arc::clone(key));
        }
        let vault = self.vault.clone();
        let found = tokio::task::spawn_blocking(move || key_of(&vault)).await;
        let unusable =
            || MissingCredential::unavailable("the key of statements cannot be used").with_hint("servanda doctor");
        let found = found.map_err(|_| unusable())?;
        let found = found.map_err(|fault| MissingCredential::unavailable(fault.to_string()).with_hint(fault.hint()))?;
        let key = Arc::new(found.ok_or_else(unusable)?);
        Ok(Arc::clone(self.key.get_or_init(|| key)))
    }

    fn mint(
        &self,
        key: &StatementKey,
        credential_request: &CredentialRequest,
        call: &CredentialCall,
        under: &CallRequirements,
    ) -> Result<Secret, MissingCredential> {
        let Some(authority) = &credential_request.authority else {
            return Err(MissingCredential::not_permitted("there is no credential of the caller to state the call by"));
        };
        let now = SystemClock.now();
        // Upheld: the engine has checked the whole lineage for revocation just before it sent this.
        let caller = authority.recheck(now, |_| RevocationStatus::Good);
        let caller = caller.map_err(|over| MissingCredential::not_permitted(over.to_string()))?;
        let left = credential_request.deadline.saturating_duration_since(tokio::time::Instant::now()).as_millis();
        let lifetime_ms = u64::try_from(left).unwrap_or(u64::MAX).saturating_add(SLACK_MS);
        // Gate 7 has judged the resources that the payload touches; statements do not contain them.
        let need =
            RequiredRights { scopes: &under.scopes, tool: &under.tool, resources: &[], class: under.class, at: now };
        let invocation = Invocation {
            issuer: &self.issuer,
            audience: self.audience.as_deref().unwrap_or(credential_request.upstream.as_str()),
            upstream: credential_request.upstream.as_str(),
            call_id: &call.call_id,
            payload: call.arguments,
            lifetime_ms: lifetime_ms.min(INVOCATION_LIFETIME_MS_MAX),
        };
        let minted = key.mint(caller, &need, &invocation);
        minted.map_err(|why| MissingCredential::not_permitted(format!("no statement about the call: {why}")))
    }
}

impl CredentialSource for StatementCredentialSource {
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(async {
            let Some(call) = &credential_request.call else { return Ok(PresentedCredentials::default()) };
            let Some(under) = call.requirements.as_deref().filter(|_| credential_request.authority.is_some()) else {
                return Ok(PresentedCredentials::default());
            };
            let key = self.key().await?;
            let statement = self.mint(&key, credential_request, call, under)?;
            let stems = vec![Secret::from(key.stem())];
            Ok(PresentedCredentials { stems, ..PresentedCredentials::header(self.header.clone(), statement) })
        })
    }

    fn rejected<'a>(&'a self, _: &'a CredentialRequest, _: &'a CredentialRejection) -> PortFuture<'a, Remedy> {
        Box::pin(async {
            let told = "it rejects our statement about the call; it must know our public key";
            Remedy::GiveUp(MissingCredential::not_permitted(told).with_hint("servanda secret jwks"))
        })
    }

    fn is_personal(&self) -> bool {
        false
    }
}
