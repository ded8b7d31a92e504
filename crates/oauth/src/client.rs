//! Who we are at an authorization server: a client that somebody registered for us, a document that describes us, or one
//! that registers itself; and how that client proves itself at the token endpoint.
//!
//! A client belongs to the issuer it was made at. Only a document is the same everywhere.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use servanda_authority::Secret;
use servanda_contract::json::{JsonLimits, decode};

use crate::{assertion::SigningKey, metadata::Server, place::Place, scope::Scopes};

/// Bytes of an answer to a registration.
pub const REGISTRATION_BYTES_MAX: usize = 64 << 10;
const REGISTRATION_DEPTH_MAX: usize = 8;
const IDENTIFIER_BYTES_MAX: usize = 4 << 10;
/// What we are called where we register ourselves.
const NAME: &str = "Servanda";

/// How a client proves itself, by its registered name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofMethod {
    /// Not at all: a public client.
    None,
    /// A password in the header.
    ClientSecretBasic,
    /// A password in the form.
    ClientSecretPost,
    /// A signed statement (RFC 7523).
    PrivateKeyJwt,
}

/// How a client proves itself, with what it takes.
#[derive(Debug, Clone)]
pub enum ClientProof {
    /// Not at all.
    None,
    /// A password in the header.
    Basic(Secret),
    /// A password in the form.
    Post(Secret),
    /// A signed statement.
    Signed(SigningKey),
}

/// A client at one issuer.
#[derive(Debug, Clone)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// How it proves itself.
    pub proof: ClientProof,
}

/// What the operator says about who we are.
#[derive(Debug, Clone, Default)]
pub struct Configured {
    /// An id that somebody registered for us.
    pub id: Option<String>,
    /// Its password.
    pub secret: Option<Secret>,
    /// Its key.
    pub key: Option<SigningKey>,
    /// How it proves itself, where the choice is not to be left to discovery.
    pub method: Option<ProofMethod>,
    /// The https address of a document that describes us.
    pub document: Option<String>,
}

/// How we become a client.
#[derive(Debug, Clone)]
pub enum Way {
    /// We are one.
    Are(Client),
    /// We register.
    Register {
        /// Where.
        at: Place,
        /// With what.
        request: Value,
        /// How we said that we would prove ourselves.
        method: ProofMethod,
    },
}

/// Why we are no client there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoClient {
    /// There is no way to become one.
    #[error("the authorization server lets no client register itself, and none is configured")]
    NotConfigured,
    /// It takes no proof that we can give.
    #[error("the authorization server takes no proof of a client that is configured")]
    NoProof,
    /// The registration was refused.
    #[error("the authorization server refused the registration")]
    Refused,
    /// The answer to the registration is none.
    #[error("the answer to the registration is not of the expected form")]
    Form,
}

/// The parts of an answer to a registration that are of use.
#[derive(Deserialize)]
struct Written {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

impl ProofMethod {
    /// Its registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost, Self::PrivateKeyJwt]
            .into_iter()
            .find(|method| method.name() == name)
    }
}

impl Configured {
    /// How we become a client of that server: one that was registered for us, then a document, then by registering.
    pub fn way(&self, server: &Server, redirect: Option<&str>, scopes: &Scopes) -> Result<Way, NoClient> {
        if let Some(id) = &self.id {
            let proof = self.proof(server)?;
            return Ok(Way::Are(Client { id: id.clone(), proof }));
        }
        if let Some(document) = self.document.as_ref().filter(|_| server.takes_documents) {
            return Ok(Way::Are(Client { id: document.clone(), proof: ClientProof::None }));
        }
        let (Some(at), Some(redirect)) = (&server.registration_endpoint, redirect) else {
            return Err(NoClient::NotConfigured);
        };
        let takes = |method: ProofMethod| takes(server, method);
        let wanted = [ProofMethod::None, ProofMethod::ClientSecretBasic, ProofMethod::ClientSecretPost];
        // A server that does not say takes passwords in the header; most take public clients all the same.
        let silent = server.client_proofs.is_none().then_some(ProofMethod::None);
        let method = silent.or_else(|| wanted.into_iter().find(|method| takes(*method))).ok_or(NoClient::NoProof)?;
        Ok(Way::Register { at: at.clone(), request: registration(redirect, method, scopes), method })
    }

    fn proof(&self, server: &Server) -> Result<ClientProof, NoClient> {
        let can = |method: ProofMethod| match method {
            ProofMethod::None => self.secret.is_none() && self.key.is_none(),
            ProofMethod::ClientSecretBasic | ProofMethod::ClientSecretPost => self.secret.is_some(),
            ProofMethod::PrivateKeyJwt => self.key.is_some(),
        };
        // The strongest first. A public client is what we are if nothing was given to prove anything with.
        let order = [ProofMethod::PrivateKeyJwt, ProofMethod::ClientSecretBasic, ProofMethod::ClientSecretPost];
        let chosen = match self.method {
            Some(method) => Some(method),
            None if can(ProofMethod::None) => Some(ProofMethod::None),
            None => order.into_iter().find(|method| can(*method) && takes(server, *method)),
        };
        let method = chosen.filter(|method| can(*method)).ok_or(NoClient::NoProof)?;
        ClientProof::of(method, self.secret.clone(), self.key.clone()).ok_or(NoClient::NoProof)
    }
}

impl ClientProof {
    fn of(method: ProofMethod, secret: Option<Secret>, key: Option<SigningKey>) -> Option<Self> {
        match method {
            ProofMethod::None => Some(Self::None),
            ProofMethod::ClientSecretBasic => secret.map(Self::Basic),
            ProofMethod::ClientSecretPost => secret.map(Self::Post),
            ProofMethod::PrivateKeyJwt => key.map(Self::Signed),
        }
    }

    /// Its name.
    pub const fn method(&self) -> ProofMethod {
        match self {
            Self::None => ProofMethod::None,
            Self::Basic(_) => ProofMethod::ClientSecretBasic,
            Self::Post(_) => ProofMethod::ClientSecretPost,
            Self::Signed(_) => ProofMethod::PrivateKeyJwt,
        }
    }

    /// The password, where there is one.
    pub const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::Basic(secret) | Self::Post(secret) => Some(secret),
            Self::None | Self::Signed(_) => None,
        }
    }
}

impl Client {
    /// The client that an answer to a registration makes us.
    pub fn registered(status: u16, body: &[u8], asked: ProofMethod) -> Result<Self, NoClient> {
        if !matches!(status, 200 | 201) {
            return Err(NoClient::Refused);
        }
        let limits = JsonLimits { bytes_max: REGISTRATION_BYTES_MAX, depth_max: REGISTRATION_DEPTH_MAX };
        let value = decode(body, limits).map_err(|_| NoClient::Form)?;
        let written: Written = serde_json::from_value(value).map_err(|_| NoClient::Form)?;
        let good = |text: &String| !text.is_empty() && text.len() <= IDENTIFIER_BYTES_MAX;
        if !good(&written.client_id) {
            return Err(NoClient::Form);
        }
        let method = match &written.token_endpoint_auth_method {
            Some(name) => ProofMethod::named(name).ok_or(NoClient::NoProof)?,
            None => asked,
        };
        let secret = written.client_secret.filter(good).map(Secret::from);
        let proof = ClientProof::of(method, secret, None).ok_or(NoClient::NoProof)?;
        Ok(Self { id: written.client_id, proof })
    }
}

/// Whether a server says that it takes this; one that says nothing takes passwords in the header (RFC 8414 §2).
fn takes(server: &Server, method: ProofMethod) -> bool {
    match &server.client_proofs {
        Some(taken) => taken.iter().any(|name| name == method.name()),
        None => method == ProofMethod::ClientSecretBasic,
    }
}

fn registration(redirect: &str, method: ProofMethod, scopes: &Scopes) -> Value {
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
