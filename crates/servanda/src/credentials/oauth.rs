//! Tokens of authorization servers: makes the source that a configuration names, out of the vault, the notebook and what the
//! configuration says.

use std::sync::Arc;

use reqwest::Url;
use servanda_authority::{
    Secret,
    invocation::{StatementKey, SubjectStatement},
    sealing::{KEY_BYTES, SealingKey},
    signature::Algorithm,
};
use servanda_contract::{Timestamp, time::Clock};
use servanda_effects::{Notebook, PortFuture};
use servanda_engine::SystemClock;
use servanda_oauth::{
    assertion::SigningKey,
    book::{LOGIN_PURPOSE, LoginBook},
    client::{Client, ClientProof, Configured},
    flow::Subject,
    grant::{Access, Standing, Terms},
    machine::{About, MachineSource, Statements},
    personal::PersonalSource,
    proof::random_text,
    scope::Scopes,
};
use servanda_upstream::{CredentialSource, NotPresented};
use servanda_vault::{SecretReference, Vault};

use super::statement;
use crate::{
    config::{KeyAlgorithm, OauthConfig, OauthFlow},
    failure::Failure,
};

/// What the key that logins are sealed with is called in the store.
const KEY_NAME: &str = "login-key";

/// The terms of one upstream; secrets are looked up when they are needed.
#[derive(Debug, Clone)]
pub(crate) struct VaultTerms {
    upstream: String,
    url: Url,
    config: OauthConfig,
    vault: Vault,
}

/// The gateway's statements about users.
#[derive(Debug)]
struct OwnStatements {
    issuer: String,
    key: StatementKey,
}

/// Where logins are kept: in the notebook, sealed with a key of the encrypted store.
pub(crate) fn book(vault: &Vault, notebook: Arc<dyn Notebook>) -> Result<LoginBook, Failure> {
    let store = vault.local().ok_or_else(|| Failure::failed("there is no encrypted store for the key of logins"))?;
    let key = store.own(KEY_NAME, KEY_BYTES, SystemClock.now());
    let key = key.map_err(|fault| Failure::failed(fault.to_string()).hint(fault.hint()))?;
    let key = SealingKey::new(LOGIN_PURPOSE, &key).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(LoginBook::new(notebook, Arc::new(key)))
}

/// What shows tokens to that upstream.
pub(super) fn source(terms: VaultTerms, notebook: Arc<dyn Notebook>) -> Result<Arc<dyn CredentialSource>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let book = book(&terms.vault, notebook)?;
    if terms.config.flow == OauthFlow::User {
        return Ok(Arc::new(PersonalSource::new(Arc::new(terms), book, clock)));
    }
    let statements = terms.own_statements()?;
    Ok(Arc::new(MachineSource::new(Arc::new(terms), book, clock, statements)))
}

impl VaultTerms {
    /// Of an upstream at that address.
    pub(crate) fn new(upstream: &str, url: &str, config: &OauthConfig, vault: Vault) -> Result<Self, Failure> {
        let url = Url::parse(url).map_err(|_| Failure::bad_input(format!("the URL of `{upstream}` is not valid")))?;
        Ok(Self { upstream: upstream.to_owned(), url, config: config.clone(), vault })
    }

    fn own_statements(&self) -> Result<Option<Arc<dyn Statements>>, Failure> {
        let config = &self.config;
        let (OauthFlow::TokenExchange, None, Some(issuer)) =
            (config.flow, &config.subject_token, &config.statement_issuer)
        else {
            return Ok(None);
        };
        let key = statement::key_of(&self.vault);
        let key = key.map_err(|fault| Failure::failed(fault.to_string()).hint(fault.hint()))?;
        let key = key.ok_or_else(|| Failure::failed("the key in the store is no key"))?;
        Ok(Some(Arc::new(OwnStatements { issuer: issuer.clone(), key })))
    }

    fn secret(&self, text: Option<&String>) -> Result<Option<Secret>, NotPresented> {
        let Some(text) = text else { return Ok(None) };
        let reference: SecretReference =
            text.parse().map_err(|_| NotPresented::unavailable("a secret of the configuration is not named"))?;
        let found = self.vault.get(&reference);
        found.map(Some).map_err(|lack| NotPresented::unavailable(lack.to_string()).hinting(lack.hint()))
    }

    fn needed(&self, text: Option<&String>) -> Result<Secret, NotPresented> {
        self.secret(text)?.ok_or_else(|| NotPresented::unavailable("the configuration names no secret for this flow"))
    }

    fn client(&self) -> Result<Configured, NotPresented> {
        let config = &self.config;
        let key = match (self.secret(config.client_key.as_ref())?, config.client_key_algorithm) {
            (Some(pem), Some(algorithm)) => {
                let read = SigningKey::read(&pem, algorithm.algorithm(), config.client_key_id.clone());
                Some(read.map_err(|error| NotPresented::unavailable(error.to_string()))?)
            }
            _ => None,
        };
        Ok(Configured {
            id: config.client_id.clone(),
            secret: self.secret(config.client_secret.as_ref())?,
            key,
            method: config.client_auth.map(crate::config::ClientAuth::method),
            document: config.client_document.clone(),
        })
    }

    fn standing(&self) -> Result<Standing, NotPresented> {
        let config = &self.config;
        match config.flow {
            OauthFlow::User | OauthFlow::ClientCredentials => return Ok(Standing::Client),
            OauthFlow::JwtBearer => return self.needed(config.assertion.as_ref()).map(Standing::Assertion),
            OauthFlow::TokenExchange if config.subject_token.is_none() => return Ok(Standing::Statement),
            OauthFlow::TokenExchange => {}
        }
        let kind = config.subject_token_type.clone().unwrap_or_default();
        let subject = Subject { token: self.needed(config.subject_token.as_ref())?, kind };
        let Some(exchange) = &config.exchange_at else { return Ok(Standing::Subject(subject)) };
        let endpoint =
            Url::parse(&exchange.url).map_err(|_| NotPresented::unavailable("`exchange_at` is no address"))?;
        let proof = self.secret(exchange.client_secret.as_ref())?.map_or(ClientProof::None, ClientProof::Basic);
        Ok(Standing::Relayed { subject, endpoint, client: Client { id: exchange.client_id.clone(), proof } })
    }

    fn read(&self) -> Result<Access, NotPresented> {
        let config = &self.config;
        let exchange = config.exchange_at.as_ref().map(|exchange| &exchange.url);
        let named = config.issuer.iter().chain(exchange).filter_map(|text| Url::parse(text).ok()).collect();
        let scopes = Some(&config.scopes).filter(|scopes| !scopes.is_empty());
        let scopes = scopes.map(|scopes| Scopes::new(scopes.clone())).transpose();
        Ok(Access {
            upstream: self.upstream.clone(),
            url: self.url.clone(),
            issuer: config.issuer.clone(),
            client: self.client()?,
            scopes: scopes.map_err(|error| NotPresented::unavailable(error.to_string()))?,
            named,
            standing: self.standing()?,
        })
    }
}

impl Terms for VaultTerms {
    fn access(&self) -> PortFuture<'_, Result<Access, NotPresented>> {
        Box::pin(async {
            let terms = self.clone();
            let read = tokio::task::spawn_blocking(move || terms.read()).await;
            read.unwrap_or_else(|_| Err(NotPresented::unavailable("the secrets could not be looked up")))
        })
    }

    fn url(&self) -> &Url {
        &self.url
    }
}

impl Statements for OwnStatements {
    fn state(&self, about: &About<'_>, now: Timestamp) -> Result<Secret, NotPresented> {
        // Not the call's: after a rejection a second statement is made for the same call.
        let id = random_text().map_err(|error| NotPresented::unavailable(error.to_string()))?;
        let subject = SubjectStatement {
            issuer: &self.issuer,
            audience: about.audience,
            id: id.as_text().unwrap_or_default(),
            tenant: &about.caller.tenant,
            principal: &about.caller.principal,
            actors: &about.caller.actors,
            upstream: about.upstream,
        };
        self.key.mint_subject(&subject, now).map_err(|error| NotPresented::unavailable(error.to_string()))
    }
}

impl KeyAlgorithm {
    const fn algorithm(self) -> Algorithm {
        match self {
            Self::ES256 => Algorithm::Es256,
            Self::EdDSA => Algorithm::EdDsa,
            Self::RS256 => Algorithm::Rs256,
            Self::PS256 => Algorithm::Ps256,
        }
    }
}
