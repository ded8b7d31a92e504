//! A login: what a user consented to, and the resulting tokens, as one value that can be stored and read again.
//!
//! A login is for one resource. If the upstream's address changes, the new address does not get the tokens.

use reqwest::Url;
use serde::{Deserialize, Serialize};
use servanda_authority::Secret;
use servanda_contract::Timestamp;
use zeroize::Zeroize as _;

use crate::{
    client::{ClientAuthMethod, ClientAuthentication, OauthClient, OauthClientConfig},
    flow::GrantedTokens,
    metadata,
    scope::OauthScopes,
    token_response::IssuedTokens,
};

/// A token that expires within this time is not shown any more, because it would expire on the way. A token that lives less than twice as
/// long is shown for the first half of its life.
pub const LEEWAY_MS: u64 = 30_000;

/// Until when a token is shown.
pub(crate) fn shown_until(issued_at: Timestamp, expires_at: Timestamp) -> Timestamp {
    let leeway_ms = LEEWAY_MS.min(expires_at.since_ms(issued_at) / 2);
    Timestamp::from_unix_ms(expires_at.unix_ms().saturating_sub(leeway_ms))
}

/// What a user consented to.
#[derive(Debug, Clone)]
pub struct Login {
    /// Who issued the tokens.
    pub issuer: String,
    /// Where the next tokens are requested.
    pub token_endpoint: String,
    /// The resource they are for.
    pub resource: String,
    /// The scopes that were asked for.
    pub asked: OauthScopes,
    /// The scopes that were granted.
    pub scopes: OauthScopes,
    /// When the tokens were issued.
    pub issued_at: Timestamp,
    /// When the access token expires, if that is known.
    pub expires_at: Option<Timestamp>,
    /// Counts the changes of this login's tokens.
    pub generation: u64,
    /// Where the browser returned to.
    pub redirect: Option<String>,
    client_id: String,
    method: ClientAuthMethod,
    /// For a client that registered itself; other clients have theirs in the configuration.
    client_secret: Option<Secret>,
    registered: bool,
    access: Secret,
    refresh: Option<Secret>,
}

impl Login {
    /// The login that results from a grant.
    pub fn from_grant(
        granted: &GrantedTokens,
        configured: &OauthClientConfig,
        redirect: Option<String>,
        now: Timestamp,
    ) -> Self {
        let (client, tokens) = (&granted.client, &granted.tokens);
        let ours = [&configured.id, &configured.document].into_iter().flatten().any(|id| *id == client.id);
        Self {
            issuer: granted.issuer.clone(),
            token_endpoint: granted.token_endpoint.url().to_string(),
            resource: granted.resource.clone(),
            asked: granted.scopes.clone(),
            scopes: tokens.scopes.clone().unwrap_or_else(|| granted.scopes.clone()),
            issued_at: now,
            expires_at: tokens.expires_at,
            generation: 0,
            redirect,
            client_id: client.id.clone(),
            method: client.proof.method(),
            client_secret: client.proof.secret().filter(|_| !ours).cloned(),
            registered: !ours,
            access: tokens.access.clone(),
            refresh: tokens.refresh.clone(),
        }
    }

    /// The same with the next tokens. If no new refresh token came, the present one stays valid.
    #[must_use]
    pub fn renewed(&self, tokens: IssuedTokens, now: Timestamp) -> Self {
        Self {
            scopes: tokens.scopes.unwrap_or_else(|| self.scopes.clone()),
            issued_at: now,
            expires_at: tokens.expires_at,
            generation: self.generation + 1,
            access: tokens.access,
            refresh: tokens.refresh.or_else(|| self.refresh.clone()),
            ..self.clone()
        }
    }

    /// The same without the refresh token, which was tried and is used up or withdrawn.
    #[must_use]
    pub fn without_refresh_token(&self) -> Self {
        Self { refresh: None, generation: self.generation + 1, ..self.clone() }
    }

    /// Whether it is that login, with the same tokens: neither renewed nor replaced since.
    pub fn is_same(&self, other: &Self) -> bool {
        let refresh = |login: &Self| login.refresh.as_ref().map(|token| token.expose().to_vec());
        (self.generation, self.issued_at) == (other.generation, other.issued_at)
            && self.access.expose() == other.access.expose()
            && refresh(self) == refresh(other)
    }

    /// Whether its tokens are for the resource at that address.
    pub fn is_for(&self, upstream: &Url) -> bool {
        metadata::identifies(&self.resource, upstream)
    }

    /// The access token, while it is valid.
    pub fn token(&self, now: Timestamp) -> Option<&Secret> {
        let over = |at: Timestamp| shown_until(self.issued_at, at) <= now;
        (!self.expires_at.is_some_and(over)).then_some(&self.access)
    }

    /// The refresh token.
    pub const fn refresh_token(&self) -> Option<&Secret> {
        self.refresh.as_ref()
    }

    /// The id of the client that the tokens were issued to.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// The client that the tokens were issued to; none if the configuration now has another.
    pub fn client(&self, configured: &OauthClientConfig) -> Option<OauthClient> {
        let secret = if self.registered { self.client_secret.clone() } else { configured.secret.clone() };
        let ours = [&configured.id, &configured.document].into_iter().flatten().any(|id| *id == self.client_id);
        if !self.registered && !ours {
            return None;
        }
        let proof = match self.method {
            ClientAuthMethod::None => Some(ClientAuthentication::None),
            ClientAuthMethod::ClientSecretBasic => secret.map(ClientAuthentication::Basic),
            ClientAuthMethod::ClientSecretPost => secret.map(ClientAuthentication::Post),
            ClientAuthMethod::PrivateKeyJwt => configured.key.clone().map(ClientAuthentication::Signed),
        };
        proof.map(|proof| OauthClient { id: self.client_id.clone(), proof })
    }

    /// The client, if it registered itself. It may be used again at the same issuer.
    pub fn registered_client(&self) -> Option<(String, OauthClient)> {
        let client = self.registered.then(|| self.client(&OauthClientConfig::default())).flatten();
        client.map(|client| (self.issuer.clone(), client))
    }

    /// The stored form, to be sealed.
    pub(crate) fn to_json(&self) -> Option<Secret> {
        let text = |secret: &Secret| secret.as_text().unwrap_or_default().to_owned();
        let written = LoginRecord {
            version: VERSION,
            issuer: self.issuer.clone(),
            token_endpoint: self.token_endpoint.clone(),
            resource: self.resource.clone(),
            asked: self.asked.clone(),
            scopes: self.scopes.clone(),
            issued_at: self.issued_at,
            expires_at: self.expires_at,
            generation: self.generation,
            redirect: self.redirect.clone(),
            client_id: self.client_id.clone(),
            method: self.method,
            client_secret: self.client_secret.as_ref().map(text),
            registered: self.registered,
            access: text(&self.access),
            refresh: self.refresh.as_ref().map(text),
        };
        serde_json::to_vec(&written).ok().map(Secret::new)
    }

    /// Reads the stored form.
    pub(crate) fn from_json(written: &Secret) -> Option<Self> {
        let mut written: LoginRecord = serde_json::from_slice(written.expose()).ok()?;
        if written.version != VERSION {
            return None;
        }
        let take = |text: &mut Option<String>| text.take().map(Secret::from);
        Some(Self {
            client_secret: take(&mut written.client_secret),
            refresh: take(&mut written.refresh),
            access: Secret::from(std::mem::take(&mut written.access)),
            issuer: written.issuer.clone(),
            token_endpoint: written.token_endpoint.clone(),
            resource: written.resource.clone(),
            asked: written.asked.clone(),
            scopes: written.scopes.clone(),
            issued_at: written.issued_at,
            expires_at: written.expires_at,
            generation: written.generation,
            redirect: written.redirect.clone(),
            client_id: written.client_id.clone(),
            method: written.method,
            registered: written.registered,
        })
    }
}

const VERSION: u32 = 1;

/// Its strings move into secrets, which are wiped, or out of them into data that is sealed at once.
#[derive(Serialize, Deserialize)]
struct LoginRecord {
    version: u32,
    issuer: String,
    token_endpoint: String,
    resource: String,
    asked: OauthScopes,
    scopes: OauthScopes,
    issued_at: Timestamp,
    expires_at: Option<Timestamp>,
    generation: u64,
    redirect: Option<String>,
    client_id: String,
    method: ClientAuthMethod,
    client_secret: Option<String>,
    registered: bool,
    access: String,
    refresh: Option<String>,
}

impl Drop for LoginRecord {
    fn drop(&mut self) {
        self.access.zeroize();
        self.refresh.zeroize();
        self.client_secret.zeroize();
    }
}

#[cfg(test)]
mod tests;
