//! Tokens of authorization servers: builds the token source of an upstream from the vault, the notebook and the configuration.

use std::sync::Arc;

use reqwest::Url;
use servanda_authority::{
    Secret,
    invocation::{StatementKey, SubjectStatement},
    sealing::{KEY_BYTES, SealingKey},
};
use servanda_config::{OauthConfig, OauthFlow};
use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{Notebook, PortFuture};
use servanda_engine::SystemClock;
use servanda_oauth::{
    assertion::SigningKey,
    client::{ClientAuthentication, OauthClient, OauthClientConfig},
    flow::SubjectToken,
    grant::{UnattendedGrant, UpstreamAccess, UpstreamAccessSource},
    login_store::{LOGIN_PURPOSE, LoginStore},
    machine::{MachineSource, StatementIssuer, StatementSubject},
    personal::PersonalSource,
    pkce::random_text,
    scope::OauthScopes,
};
use servanda_upstream::{CredentialSource, MissingCredential};
use servanda_vault::{SecretReference, Vault};

use super::statement;
use crate::failure::CommandFailure;

/// The name of the key that seals logins, in the store.
const KEY_NAME: &str = "login-key";

/// The OAuth terms of one upstream; secrets are looked up when they are needed.
#[derive(Debug, Clone)]
pub(crate) struct VaultOauthTerms {
    upstream: String,
    url: Url,
    config: OauthConfig,
    vault: Vault,
}

/// The gateway's statements about users.
#[derive(Debug)]
struct GatewayStatements {
    issuer: String,
    key: StatementKey,
}

/// Where logins are kept: in the notebook, sealed with a key of the encrypted store.
pub(crate) fn login_store(vault: &Vault, notebook: Arc<dyn Notebook>) -> Result<LoginStore, CommandFailure> {
    let store =
        vault.local().ok_or_else(|| CommandFailure::failed("there is no encrypted store for the key of logins"))?;
    let key = store.own(KEY_NAME, KEY_BYTES, SystemClock.now());
    let key = key.map_err(|fault| CommandFailure::failed(fault.to_string()).hint(fault.hint()))?;
    let key = SealingKey::new(LOGIN_PURPOSE, &key).map_err(|error| CommandFailure::failed(error.to_string()))?;
    Ok(LoginStore::new(notebook, Arc::new(key)))
}

/// The credential source that sends tokens to that upstream.
pub(super) fn source(
    terms: VaultOauthTerms,
    notebook: Arc<dyn Notebook>,
) -> Result<Arc<dyn CredentialSource>, CommandFailure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let login_store = login_store(&terms.vault, notebook)?;
    if terms.config.flow == OauthFlow::User {
        return Ok(Arc::new(PersonalSource::new(Arc::new(terms), login_store, clock)));
    }
    let statements = terms.own_statements()?;
    Ok(Arc::new(MachineSource::new(Arc::new(terms), login_store, clock, statements)))
}

impl VaultOauthTerms {
    /// The terms of an upstream at that address.
    pub(crate) fn new(upstream: &str, url: &str, config: &OauthConfig, vault: Vault) -> Result<Self, CommandFailure> {
        let url =
            Url::parse(url).map_err(|_| CommandFailure::bad_input(format!("the URL of `{upstream}` is not valid")))?;
        Ok(Self { upstream: upstream.to_owned(), url, config: config.clone(), vault })
    }

    fn own_statements(&self) -> Result<Option<Arc<dyn StatementIssuer>>, CommandFailure> {
        let config = &self.config;
        let (OauthFlow::TokenExchange, None, Some(issuer)) =
            (config.flow, &config.subject_token, &config.statement_issuer)
        else {
            return Ok(None);
        };
        let key = statement::key_of(&self.vault);
        let key = key.map_err(|fault| CommandFailure::failed(fault.to_string()).hint(fault.hint()))?;
        let key = key.ok_or_else(|| CommandFailure::failed("the value in the store is not a key"))?;
        Ok(Some(Arc::new(GatewayStatements { issuer: issuer.clone(), key })))
    }

    fn secret(&self, text: Option<&String>) -> Result<Option<Secret>, MissingCredential> {
        let Some(text) = text else { return Ok(None) };
        let reference: SecretReference = text
            .parse()
            .map_err(|_| MissingCredential::unavailable("a secret in the configuration is not a reference"))?;
        let found = self.vault.get(&reference);
        found.map(Some).map_err(|lack| MissingCredential::unavailable(lack.to_string()).with_hint(lack.hint()))
    }

    fn needed(&self, text: Option<&String>) -> Result<Secret, MissingCredential> {
        self.secret(text)?
            .ok_or_else(|| MissingCredential::unavailable("the configuration names no secret for this flow"))
    }

    fn client(&self) -> Result<OauthClientConfig, MissingCredential> {
        let config = &self.config;
        let key = match (self.secret(config.client_key.as_ref())?, config.client_key_algorithm) {
            (Some(pem), Some(algorithm)) => {
                let read = SigningKey::read(&pem, algorithm.algorithm(), config.client_key_id.clone());
                Some(read.map_err(|error| MissingCredential::unavailable(error.to_string()))?)
            }
            _ => None,
        };
        Ok(OauthClientConfig {
            id: config.client_id.clone(),
            secret: self.secret(config.client_secret.as_ref())?,
            key,
            method: config.client_auth.map(servanda_config::ClientAuth::method),
            document: config.client_document.clone(),
        })
    }

    fn standing(&self) -> Result<UnattendedGrant, MissingCredential> {
        let config = &self.config;
        match config.flow {
            OauthFlow::User | OauthFlow::ClientCredentials => return Ok(UnattendedGrant::Client),
            OauthFlow::JwtBearer => return self.needed(config.assertion.as_ref()).map(UnattendedGrant::Assertion),
            OauthFlow::TokenExchange if config.subject_token.is_none() => return Ok(UnattendedGrant::Statement),
            OauthFlow::TokenExchange => {}
        }
        let kind = config.subject_token_type.clone().unwrap_or_default();
        let subject = SubjectToken { token: self.needed(config.subject_token.as_ref())?, kind };
        let Some(exchange) = &config.exchange_at else { return Ok(UnattendedGrant::Subject(subject)) };
        let endpoint =
            Url::parse(&exchange.url).map_err(|_| MissingCredential::unavailable("`exchange_at` is no address"))?;
        let proof = self
            .secret(exchange.client_secret.as_ref())?
            .map_or(ClientAuthentication::None, ClientAuthentication::Basic);
        Ok(UnattendedGrant::Relayed {
            subject,
            endpoint,
            client: OauthClient { id: exchange.client_id.clone(), proof },
        })
    }

    fn read(&self) -> Result<UpstreamAccess, MissingCredential> {
        let config = &self.config;
        let exchange = config.exchange_at.as_ref().map(|exchange| &exchange.url);
        let named = config.issuer.iter().chain(exchange).filter_map(|text| Url::parse(text).ok()).collect();
        let scopes = Some(&config.scopes).filter(|scopes| !scopes.is_empty());
        let scopes = scopes.map(|scopes| OauthScopes::new(scopes.clone())).transpose();
        Ok(UpstreamAccess {
            upstream: self.upstream.clone(),
            url: self.url.clone(),
            issuer: config.issuer.clone(),
            client: self.client()?,
            scopes: scopes.map_err(|error| MissingCredential::unavailable(error.to_string()))?,
            named,
            grant: self.standing()?,
        })
    }
}

impl UpstreamAccessSource for VaultOauthTerms {
    fn access(&self) -> PortFuture<'_, Result<UpstreamAccess, MissingCredential>> {
        Box::pin(async {
            let terms = self.clone();
            let read = tokio::task::spawn_blocking(move || terms.read()).await;
            read.unwrap_or_else(|_| Err(MissingCredential::unavailable("the secrets could not be looked up")))
        })
    }

    fn url(&self) -> &Url {
        &self.url
    }
}

impl StatementIssuer for GatewayStatements {
    fn issue(&self, about: &StatementSubject<'_>, now: Timestamp) -> Result<Secret, MissingCredential> {
        // Not the call's id: after a rejection a second statement is made for the same call.
        let id = random_text().map_err(|error| MissingCredential::unavailable(error.to_string()))?;
        let subject = SubjectStatement {
            issuer: &self.issuer,
            audience: about.audience,
            id: id.as_text().unwrap_or_default(),
            tenant: &about.caller.tenant,
            principal: &about.caller.principal,
            actors: &about.caller.actors,
            upstream: about.upstream,
        };
        self.key.mint_subject(&subject, now).map_err(|error| MissingCredential::unavailable(error.to_string()))
    }
}
