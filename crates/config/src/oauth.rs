//! The configuration of OAuth tokens for an upstream: which flow obtains them, and the gateway's identity at the authorization server.
//! Everything that discovery finds may be left out. Secrets are referred to by name, never written here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_authority::signature::Algorithm;
use servanda_oauth::{client::ClientAuthMethod, scope::OauthScopes};
use servanda_vault::SecretReference;
use url::Url;

/// Tokens of an OAuth 2.1 authorization server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OauthConfig {
    /// How tokens are obtained.
    #[serde(default)]
    pub flow: OauthFlow,
    /// The authorization server, by its issuer, if the upstream is not to choose it. The client's id belongs to it. Required with a
    /// `client_secret`, an `assertion` or a `subject_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The gateway's client id there, if it was registered by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret: `env:NAME`, `file:PATH` or `store:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Its private key (PKCS #8, PEM), as a reference of the same form, for `private_key_jwt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    /// The algorithm of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_algorithm: Option<KeyAlgorithm>,
    /// The key's id, if the authorization server knows several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_id: Option<String>,
    /// How the client authenticates, if discovery is not to choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    /// The https address of a document that describes this gateway as a client, for servers that accept one instead of a registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_document: Option<String>,
    /// The scopes to ask for, if the upstream is not to name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// For `jwt_bearer`: the signed statement that is the grant, as a reference of the same form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assertion: Option<String>,
    /// For `token_exchange`: the token that is exchanged, as a reference of the same form. By default, a statement of the gateway about the
    /// user of each call, never the caller's own credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_token: Option<String>,
    /// The kind of `subject_token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject_token_type: Option<String>,
    /// The issuer of the gateway's statements: the address under which the authorization server knows the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement_issuer: Option<String>,
    /// Where `subject_token` is first exchanged for a grant, if not at the upstream's own authorization server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_at: Option<ExchangeConfig>,
}

/// How tokens are obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OauthFlow {
    /// Every user logs in with `servanda login`.
    #[default]
    User,
    /// The gateway's own token, for all users.
    ClientCredentials,
    /// A statement about the user, exchanged for a token (RFC 8693).
    TokenExchange,
    /// A signed statement that is a grant by itself (RFC 7523).
    JwtBearer,
}

/// The algorithm of a client's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum KeyAlgorithm {
    /// ECDSA on P-256.
    ES256,
    /// Ed25519.
    EdDSA,
    /// RSA, PKCS #1 v1.5.
    RS256,
    /// RSA, PSS.
    PS256,
}

/// How a client authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// It does not.
    None,
    /// The secret, in the header.
    ClientSecretBasic,
    /// The secret, in the form.
    ClientSecretPost,
    /// A signed statement.
    PrivateKeyJwt,
}

/// Another authorization server, in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExchangeConfig {
    /// Its token endpoint.
    pub url: String,
    /// The gateway's client id there.
    pub client_id: String,
    /// Its secret: `env:NAME`, `file:PATH` or `store:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
}

impl OauthConfig {
    /// What the format alone cannot check: the field, and what is wrong with it.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        self.bad_reference().or_else(|| self.bad_address()).or_else(|| self.bad_combination())
    }

    /// The secrets that it refers to, by field.
    pub(crate) fn secrets(&self) -> Vec<(&'static str, &String)> {
        let exchange = self.exchange_at.as_ref().and_then(|exchange| exchange.client_secret.as_ref());
        let named = [
            ("client_secret", self.client_secret.as_ref()),
            ("client_key", self.client_key.as_ref()),
            ("assertion", self.assertion.as_ref()),
            ("subject_token", self.subject_token.as_ref()),
            ("exchange_at.client_secret", exchange),
        ];
        named.into_iter().filter_map(|(field, text)| Some((field, text?))).collect()
    }

    /// The field of a secret that would be sent to whichever authorization server the upstream at that address names. A private key is
    /// never sent, and a server on this machine names no other.
    pub(crate) fn secret_for_anybody(&self, url: &str) -> Option<&'static str> {
        let local = Url::parse(url).is_ok_and(|url| is_local(&url));
        let relayed = self.exchange_at.is_some();
        let shown =
            |field: &str| matches!(field, "client_secret" | "assertion") || (field == "subject_token" && !relayed);
        let first = self.secrets().into_iter().map(|(field, _)| field).find(|field| shown(field));
        first.filter(|_| self.issuer.is_none() && !local)
    }

    fn bad_reference(&self) -> Option<(&'static str, String)> {
        let named = self.secrets().into_iter();
        named
            .map(|(field, text)| (field, text.parse::<SecretReference>()))
            .find_map(|(field, read)| read.err().map(|error| (field, error.to_string())))
    }

    fn bad_address(&self) -> Option<(&'static str, String)> {
        let is_good = |text: &str| {
            let url = Url::parse(text).ok()?;
            (url.scheme() == "https" || (url.scheme() == "http" && is_local(&url))).then_some(url)
        };
        let told = "must be an https address, or an http address on this machine".to_owned();
        if self.issuer.as_deref().is_some_and(|text| is_good(text).is_none()) {
            return Some(("issuer", told));
        }
        if self.exchange_at.as_ref().is_some_and(|exchange| is_good(&exchange.url).is_none()) {
            return Some(("exchange_at.url", told));
        }
        let document = self.client_document.as_deref().and_then(|text| Url::parse(text).ok());
        let is_document = |url: Url| url.scheme() == "https" && url.path() != "/" && url.fragment().is_none();
        if self.client_document.is_some() && !document.is_some_and(is_document) {
            return Some(("client_document", "must be an https address with a path".to_owned()));
        }
        OauthScopes::new(self.scopes.clone()).err().map(|error| ("scopes", error.to_string()))
    }

    fn bad_combination(&self) -> Option<(&'static str, String)> {
        let proves = self.client_secret.is_some() || self.client_key.is_some();
        let wrong = |field, told: &str| Some((field, told.to_owned()));
        if self.client_key.is_some() != self.client_key_algorithm.is_some() {
            return wrong("client_key", "goes with `client_key_algorithm`");
        }
        if proves && self.client_id.is_none() {
            return wrong("client_id", "is missing: a secret or a key belongs to a client");
        }
        match self.flow {
            OauthFlow::ClientCredentials if !proves => {
                wrong("flow", "`client_credentials` needs a `client_id` with a `client_secret` or a `client_key`")
            }
            OauthFlow::JwtBearer if self.assertion.is_none() => wrong("assertion", "is missing: it is the grant"),
            OauthFlow::TokenExchange | OauthFlow::JwtBearer if self.client_id.is_none() => {
                wrong("client_id", "is missing: a client cannot register itself in this flow")
            }
            OauthFlow::TokenExchange if self.subject_token.is_some() != self.subject_token_type.is_some() => {
                wrong("subject_token", "goes with `subject_token_type`")
            }
            OauthFlow::TokenExchange if self.exchange_at.is_some() && self.subject_token.is_none() => {
                wrong("exchange_at", "goes with a `subject_token`")
            }
            OauthFlow::TokenExchange
                if self.subject_token.is_none() && (self.issuer.is_none() || self.statement_issuer.is_none()) =>
            {
                wrong("flow", "statements of the gateway need an `issuer` that takes them and a `statement_issuer`")
            }
            _ => None,
        }
    }
}

fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"))
}

impl KeyAlgorithm {
    /// The algorithm of the key's signatures.
    pub const fn algorithm(self) -> Algorithm {
        match self {
            Self::ES256 => Algorithm::Es256,
            Self::EdDSA => Algorithm::EdDsa,
            Self::RS256 => Algorithm::Rs256,
            Self::PS256 => Algorithm::Ps256,
        }
    }
}

impl ClientAuth {
    /// The method of the OAuth client.
    pub const fn method(self) -> ClientAuthMethod {
        match self {
            Self::None => ClientAuthMethod::None,
            Self::ClientSecretBasic => ClientAuthMethod::ClientSecretBasic,
            Self::ClientSecretPost => ClientAuthMethod::ClientSecretPost,
            Self::PrivateKeyJwt => ClientAuthMethod::PrivateKeyJwt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_said_before_anything_starts() {
        let table = [
            ("{}", None),
            (r#"{"scopes": ["a", "b"]}"#, None),
            (r#"{"client_id": "x", "client_secret": "store:crm"}"#, None),
            (r#"{"client_id": "x", "client_secret": "hunter2"}"#, Some("client_secret")),
            (r#"{"client_secret": "store:crm"}"#, Some("client_id")),
            (r#"{"client_id": "x", "client_key": "file:key.pem"}"#, Some("client_key")),
            (r#"{"issuer": "http://as.example"}"#, Some("issuer")),
            (r#"{"issuer": "http://localhost:1"}"#, None),
            (r#"{"client_document": "http://me.example/c.json"}"#, Some("client_document")),
            (r#"{"client_document": "https://me.example/"}"#, Some("client_document")),
            (r#"{"scopes": ["a b"]}"#, Some("scopes")),
            (r#"{"flow": "client_credentials", "client_id": "x"}"#, Some("flow")),
            (r#"{"flow": "client_credentials", "client_id": "x", "client_secret": "env:X"}"#, None),
            (r#"{"flow": "jwt_bearer", "client_id": "x"}"#, Some("assertion")),
            (r#"{"flow": "jwt_bearer", "assertion": "env:X"}"#, Some("client_id")),
            (r#"{"flow": "token_exchange", "client_id": "x"}"#, Some("flow")),
            (
                r#"{"flow": "token_exchange", "client_id": "x", "issuer": "https://a.example", "statement_issuer": "https://g.example"}"#,
                None,
            ),
            (r#"{"flow": "token_exchange", "client_id": "x", "subject_token": "env:X"}"#, Some("subject_token")),
        ];
        for (text, expected) in table {
            let config: OauthConfig = serde_json::from_str(text).unwrap();
            let fault = config.fault();
            assert_eq!(fault.as_ref().map(|(field, _)| *field), expected, "{text}: {fault:?}");
            assert!(!format!("{fault:?}").contains("hunter2"));
        }
    }
}
