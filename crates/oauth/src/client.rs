//! Which client the gateway is at an authorization server: one that an operator registered, a document that describes the gateway, or one
//! that registers itself; and how that client authenticates at the token endpoint.
//!
//! A client belongs to the issuer it was made at. Only a document is valid at every issuer.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use servanda_authority::Secret;
use servanda_contract::json::{JsonLimits, decode};

use crate::{allowed_url::AllowedUrl, assertion::SigningKey, metadata::AuthServerMetadata, scope::OauthScopes};

/// Most bytes of an answer to a registration.
pub const REGISTRATION_BYTES_MAX: usize = 64 << 10;
const REGISTRATION_DEPTH_MAX: usize = 8;
const IDENTIFIER_BYTES_MAX: usize = 4 << 10;
/// The name under which the gateway registers itself.
const NAME: &str = "Servanda";

/// How a client authenticates, by its registered name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuthMethod {
    /// No authentication: a public client.
    None,
    /// A password in the header.
    ClientSecretBasic,
    /// A password in the form.
    ClientSecretPost,
    /// A signed assertion (RFC 7523).
    PrivateKeyJwt,
}

/// How a client authenticates, with the secret or key it needs.
#[derive(Debug, Clone)]
pub enum ClientAuthentication {
    /// No authentication.
    None,
    /// A password in the header.
    Basic(Secret),
    /// A password in the form.
    Post(Secret),
    /// A signed assertion.
    Signed(SigningKey),
}

/// A client at one issuer.
#[derive(Debug, Clone)]
pub struct OauthClient {
    /// Its id.
    pub id: String,
    /// How it authenticates.
    pub proof: ClientAuthentication,
}

/// The operator's configuration of the client.
#[derive(Debug, Clone, Default)]
pub struct OauthClientConfig {
    /// The id of a client that was registered in advance.
    pub id: Option<String>,
    /// Its password.
    pub secret: Option<Secret>,
    /// Its key.
    pub key: Option<SigningKey>,
    /// How it authenticates; discovery chooses if not set.
    pub method: Option<ClientAuthMethod>,
    /// The https address of a document that describes the gateway.
    pub document: Option<String>,
}

/// How the gateway becomes a client.
#[derive(Debug, Clone)]
pub enum ClientAcquisition {
    /// It already is one.
    Existing(OauthClient),
    /// It registers itself.
    Register {
        /// The registration endpoint.
        at: AllowedUrl,
        /// The request body.
        request: Value,
        /// The authentication method that the request names.
        method: ClientAuthMethod,
    },
}

/// Why the gateway has no client there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OauthClientError {
    /// There is no way to become one.
    #[error("the authorization server does not let clients register themselves, and no client is configured")]
    NotConfigured,
    /// The server accepts no authentication that the gateway can give.
    #[error("the authorization server accepts none of the ways the configured client can authenticate")]
    NoProof,
    /// The registration was refused.
    #[error("the authorization server refused the registration")]
    Refused,
    /// The answer to the registration is not valid.
    #[error("the answer to the registration is not of the expected form")]
    Form,
}

/// The parts of an answer to a registration that are used.
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

impl ClientAuthMethod {
    /// Its registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.name() == name)
    }
}

impl OauthClientConfig {
    /// How the gateway becomes a client of that server: a client registered in advance, then a document, then by registering.
    pub fn acquisition(
        &self,
        server: &AuthServerMetadata,
        redirect: Option<&str>,
        scopes: &OauthScopes,
    ) -> Result<ClientAcquisition, OauthClientError> {
        if let Some(id) = &self.id {
            let proof = self.proof(server)?;
            return Ok(ClientAcquisition::Existing(OauthClient { id: id.clone(), proof }));
        }
        if let Some(document) = self.document.as_ref().filter(|_| server.takes_documents) {
            return Ok(ClientAcquisition::Existing(OauthClient {
                id: document.clone(),
                proof: ClientAuthentication::None,
            }));
        }
        let (Some(at), Some(redirect)) = (&server.registration_endpoint, redirect) else {
            return Err(OauthClientError::NotConfigured);
        };
        let takes = |method: ClientAuthMethod| takes(server, method);
        let wanted = [ClientAuthMethod::None, ClientAuthMethod::ClientSecretBasic, ClientAuthMethod::ClientSecretPost];
        // A server that lists no methods accepts passwords in the header by default; most accept public clients, too.
        let silent = server.client_proofs.is_none().then_some(ClientAuthMethod::None);
        let method =
            silent.or_else(|| wanted.into_iter().find(|method| takes(*method))).ok_or(OauthClientError::NoProof)?;
        Ok(ClientAcquisition::Register { at: at.clone(), request: registration(redirect, method, scopes), method })
    }

    fn proof(&self, server: &AuthServerMetadata) -> Result<ClientAuthentication, OauthClientError> {
        let can = |method: ClientAuthMethod| match method {
            ClientAuthMethod::None => self.secret.is_none() && self.key.is_none(),
            ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost => self.secret.is_some(),
            ClientAuthMethod::PrivateKeyJwt => self.key.is_some(),
        };
        // The strongest method first. Without a secret or a key, the client is public.
        let order =
            [ClientAuthMethod::PrivateKeyJwt, ClientAuthMethod::ClientSecretBasic, ClientAuthMethod::ClientSecretPost];
        let chosen = match self.method {
            Some(method) => Some(method),
            None if can(ClientAuthMethod::None) => Some(ClientAuthMethod::None),
            None => order.into_iter().find(|method| can(*method) && takes(server, *method)),
        };
        let method = chosen.filter(|method| can(*method)).ok_or(OauthClientError::NoProof)?;
        ClientAuthentication::new(method, self.secret.clone(), self.key.clone()).ok_or(OauthClientError::NoProof)
    }
}

impl ClientAuthentication {
    fn new(method: ClientAuthMethod, secret: Option<Secret>, key: Option<SigningKey>) -> Option<Self> {
        match method {
            ClientAuthMethod::None => Some(Self::None),
            ClientAuthMethod::ClientSecretBasic => secret.map(Self::Basic),
            ClientAuthMethod::ClientSecretPost => secret.map(Self::Post),
            ClientAuthMethod::PrivateKeyJwt => key.map(Self::Signed),
        }
    }

    /// Its method.
    pub const fn method(&self) -> ClientAuthMethod {
        match self {
            Self::None => ClientAuthMethod::None,
            Self::Basic(_) => ClientAuthMethod::ClientSecretBasic,
            Self::Post(_) => ClientAuthMethod::ClientSecretPost,
            Self::Signed(_) => ClientAuthMethod::PrivateKeyJwt,
        }
    }

    /// The password, if there is one.
    pub const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Basic(secret) | Self::Post(secret) => Some(secret),
            Self::None | Self::Signed(_) => None,
        }
    }
}

impl OauthClient {
    /// The client that results from an answer to a registration.
    pub fn from_registration(status: u16, body: &[u8], asked: ClientAuthMethod) -> Result<Self, OauthClientError> {
        if !matches!(status, 200 | 201) {
            return Err(OauthClientError::Refused);
        }
        let limits = JsonLimits { bytes_max: REGISTRATION_BYTES_MAX, depth_max: REGISTRATION_DEPTH_MAX };
        let value = decode(body, limits).map_err(|_| OauthClientError::Form)?;
        let written: RegistrationResponse = serde_json::from_value(value).map_err(|_| OauthClientError::Form)?;
        let good = |text: &String| !text.is_empty() && text.len() <= IDENTIFIER_BYTES_MAX;
        if !good(&written.client_id) {
            return Err(OauthClientError::Form);
        }
        let method = match &written.token_endpoint_auth_method {
            Some(name) => ClientAuthMethod::from_name(name).ok_or(OauthClientError::NoProof)?,
            None => asked,
        };
        let secret = written.client_secret.filter(good).map(Secret::from);
        let proof = ClientAuthentication::new(method, secret, None).ok_or(OauthClientError::NoProof)?;
        Ok(Self { id: written.client_id, proof })
    }
}

/// Whether a server accepts this method. A server that lists none accepts passwords in the header (RFC 8414 §2).
fn takes(server: &AuthServerMetadata, method: ClientAuthMethod) -> bool {
    match &server.client_proofs {
        Some(taken) => taken.iter().any(|name| name == method.name()),
        None => method == ClientAuthMethod::ClientSecretBasic,
    }
}

fn registration(redirect: &str, method: ClientAuthMethod, scopes: &OauthScopes) -> Value {
    let mut request = json!({
        "client_name": NAME,
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.name(),
    });
    if let (Some(line), Some(fields)) = (scopes.line(), request.as_object_mut()) {
        fields.insert("scope".to_owned(), Value::String(line));
    }
    request
}

#[cfg(test)]
mod tests;
