//! The two documents that say where tokens are issued, and which parts of them are believed.
//!
//! A resource's document counts only for the resource it was requested for, an authorization server's only for the issuer it was requested
//! from, and every address in them only if `allowed_url` allows it. Strings are compared exactly as they are written.

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use servanda_contract::json::{JsonLimits, decode};

use crate::{
    allowed_url::{AllowedUrl, DisallowedUrl, NetworkTrust},
    scope::OauthScopes,
};

/// Most bytes of a document.
pub const DOCUMENT_BYTES_MAX: usize = 256 << 10;
const DOCUMENT_DEPTH_MAX: usize = 16;
const SERVERS_MAX: usize = 16;
const WORDS_MAX: usize = 64;

/// What a resource says about itself (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedResourceMetadata {
    /// Its identifier, exactly as published: tokens are requested under this name.
    pub identifier: String,
    /// Issuers of tokens for it, as written.
    pub issuers: Vec<String>,
    /// Scopes for its basic use.
    pub scopes: Option<OauthScopes>,
}

/// What an authorization server says about itself (RFC 8414).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthServerMetadata {
    /// Its issuer, exactly as published.
    pub issuer: String,
    /// Where users give consent.
    pub authorization_endpoint: Option<AllowedUrl>,
    /// Where tokens are requested.
    pub token_endpoint: AllowedUrl,
    /// Where clients register.
    pub registration_endpoint: Option<AllowedUrl>,
    /// Whether it supports PKCE with S256; none if there is no document that says so.
    pub proves_codes: Option<bool>,
    /// Whether its answers through the browser name it (RFC 9207).
    pub names_itself: bool,
    /// Whether a client may be a document (`client_id_metadata_document_supported`).
    pub takes_documents: bool,
    /// How clients may authenticate; the default of RFC 8414 if not given.
    pub client_proofs: Option<Vec<String>>,
    /// The scopes it lists.
    pub scopes: Option<OauthScopes>,
    /// The kinds of subjects in its ID tokens, if it says so (`OpenID` Connect Discovery).
    pub subject_types: Option<Vec<String>>,
}

/// Why a document does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// It cannot be read.
    #[error("the document is not a JSON object of the expected form")]
    Form,
    /// It is about something else.
    #[error("the document is about another resource than this upstream")]
    OtherResource,
    /// It belongs to another issuer.
    #[error("the document names another issuer than the one it was requested from")]
    OtherIssuer,
    /// It names no server that issues tokens.
    #[error("the document names no authorization server")]
    NoServer,
    /// It names an address that is not allowed.
    #[error("the document names an address that is not followed: {0}")]
    Address(#[from] DisallowedUrl),
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct AuthServerDocument {
    issuer: String,
    #[serde(default)]
    authorization_endpoint: Option<String>,
    token_endpoint: String,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    subject_types_supported: Option<Vec<String>>,
}

impl ProtectedResourceMetadata {
    /// What a document says, if it is about this upstream.
    pub fn verify(document: &[u8], trust: &NetworkTrust) -> Result<Self, MetadataError> {
        let written: ResourceDocument = read(document)?;
        if !identifies(&written.resource, trust.upstream()) {
            return Err(MetadataError::OtherResource);
        }
        let issuers: Vec<String> = written.authorization_servers.into_iter().take(SERVERS_MAX).collect();
        if issuers.is_empty() {
            return Err(MetadataError::NoServer);
        }
        for issuer in &issuers {
            trust.follow(issuer)?;
        }
        Ok(Self { identifier: written.resource, issuers, scopes: written.scopes_supported.and_then(scopes) })
    }
}

impl AuthServerMetadata {
    /// What a document says, if it belongs to that issuer.
    pub fn verify(document: &[u8], issuer: &str, trust: &NetworkTrust) -> Result<Self, MetadataError> {
        let written: AuthServerDocument = read(document)?;
        if written.issuer != issuer {
            return Err(MetadataError::OtherIssuer);
        }
        let follow = |address: Option<String>| address.map(|address| trust.follow(&address)).transpose();
        let methods = written.code_challenge_methods_supported;
        Ok(Self {
            issuer: written.issuer,
            authorization_endpoint: follow(written.authorization_endpoint)?,
            token_endpoint: trust.follow(&written.token_endpoint)?,
            registration_endpoint: follow(written.registration_endpoint)?,
            proves_codes: Some(methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"))),
            names_itself: written.authorization_response_iss_parameter_supported,
            takes_documents: written.client_id_metadata_document_supported,
            client_proofs: written.token_endpoint_auth_methods_supported.map(words),
            scopes: written.scopes_supported.and_then(scopes),
            subject_types: written.subject_types_supported.map(words),
        })
    }

    /// The endpoints of servers of 2025-03-26 that publish no document at all.
    pub fn undocumented(trust: &NetworkTrust) -> Result<Self, MetadataError> {
        let mut origin = trust.upstream().clone();
        origin.set_query(None);
        let mut at = |path: &str| {
            origin.set_path(path);
            trust.follow_url(origin.clone())
        };
        let (authorize, token, register) = (at("/authorize")?, at("/token")?, at("/register")?);
        Ok(Self {
            issuer: trust.upstream().origin().ascii_serialization(),
            authorization_endpoint: Some(authorize),
            token_endpoint: token,
            registration_endpoint: Some(register),
            proves_codes: None,
            names_itself: false,
            takes_documents: false,
            client_proofs: Some(vec!["none".to_owned()]),
            scopes: None,
            subject_types: None,
        })
    }
}

/// Whether an identifier belongs to this upstream: the same origin, and its path or one above it. Servers with one document for everything
/// on them name their root.
pub(crate) fn identifies(identifier: &str, upstream: &Url) -> bool {
    let Ok(resource) = Url::parse(identifier) else { return false };
    let below = resource.path().trim_end_matches('/');
    let path = upstream.path().trim_end_matches('/');
    let above = path.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let query = resource.query().is_none() || resource.query() == upstream.query();
    resource.origin() == upstream.origin()
        && resource.origin().is_tuple()
        && resource.username().is_empty()
        && resource.password().is_none()
        && resource.fragment().is_none()
        && above
        && query
}

fn read<T: for<'de> Deserialize<'de>>(document: &[u8]) -> Result<T, MetadataError> {
    let limits = JsonLimits { bytes_max: DOCUMENT_BYTES_MAX, depth_max: DOCUMENT_DEPTH_MAX };
    let value: Value = decode(document, limits).map_err(|_| MetadataError::Form)?;
    serde_json::from_value(value).map_err(|_| MetadataError::Form)
}

/// Scopes from a list in a document; none if the list has a word that is no scope.
fn scopes(written: Vec<String>) -> Option<OauthScopes> {
    OauthScopes::new(written).ok()
}

fn words(written: Vec<String>) -> Vec<String> {
    written.into_iter().take(WORDS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::allowed_url::Network;

    fn trust() -> NetworkTrust {
        NetworkTrust::new(Url::parse("https://mcp.test/public/mcp").unwrap(), Network::Public)
    }

    #[test]
    fn a_resource_counts_for_itself_only() {
        let table = [
            ("https://mcp.test/public/mcp", true),
            ("https://mcp.test/public", true),
            ("https://mcp.test", true),
            ("https://mcp.test/", true),
            ("HTTPS://MCP.TEST:443/public/mcp", true),
            ("https://mcp.test/public/mc", false),
            ("https://mcp.test/public/mcp/more", false),
            ("https://mcp.test/private", false),
            ("https://evil.test/public/mcp", false),
            ("http://mcp.test/public/mcp", false),
            ("https://mcp.test:8443/public/mcp", false),
            ("https://mcp.test/public/mcp#x", false),
            ("https://mcp.test/public/mcp?x", false),
            ("https://user@mcp.test/public/mcp", false),
            ("mcp.test", false),
        ];
        for (identifier, expected) in table {
            let document = json!({"resource": identifier, "authorization_servers": ["https://as.test"]}).to_string();
            let believed = ProtectedResourceMetadata::verify(document.as_bytes(), &trust());
            assert_eq!(believed.is_ok(), expected, "{identifier}");
            if let Ok(resource) = believed {
                assert_eq!(resource.identifier, identifier, "as published");
            }
        }
    }

    #[test]
    fn a_resource_names_servers_that_can_be_followed() {
        let with = |servers: Value| {
            let document = json!({"resource": "https://mcp.test", "authorization_servers": servers}).to_string();
            ProtectedResourceMetadata::verify(document.as_bytes(), &trust()).map(|resource| resource.issuers)
        };
        assert_eq!(with(json!(["https://a.test", "https://b.test/t"])).unwrap().len(), 2);
        assert_eq!(with(json!([])), Err(MetadataError::NoServer));
        assert_eq!(with(json!("https://a.test")), Err(MetadataError::Form));
        assert!(matches!(with(json!(["https://10.0.0.1"])), Err(MetadataError::Address(_))));
        let doubled = r#"{"resource":"https://mcp.test","resource":"https://mcp.test","authorization_servers":["https://a.test"]}"#;
        assert_eq!(ProtectedResourceMetadata::verify(doubled.as_bytes(), &trust()), Err(MetadataError::Form));
    }

    #[test]
    fn a_server_counts_for_its_own_issuer_only() {
        let document = |issuer: &str| {
            json!({
                "issuer": issuer,
                "authorization_endpoint": "https://as.test/a",
                "token_endpoint": "https://as.test/t",
                "code_challenge_methods_supported": ["plain", "S256"],
            })
            .to_string()
        };
        let server =
            AuthServerMetadata::verify(document("https://as.test").as_bytes(), "https://as.test", &trust()).unwrap();
        assert_eq!(server.proves_codes, Some(true));
        assert!(!server.names_itself && !server.takes_documents);
        for other in ["https://as.test/", "https://AS.test", "https://as.test:443", "https://evil.test", ""] {
            let believed = AuthServerMetadata::verify(document(other).as_bytes(), "https://as.test", &trust());
            assert_eq!(believed, Err(MetadataError::OtherIssuer), "{other}");
        }
    }

    #[test]
    fn every_address_of_a_server_is_looked_at() {
        let good = json!({
            "issuer": "https://as.test",
            "authorization_endpoint": "https://as.test/a",
            "token_endpoint": "https://as.test/t",
            "registration_endpoint": "https://as.test/r",
        });
        assert!(AuthServerMetadata::verify(good.to_string().as_bytes(), "https://as.test", &trust()).is_ok());
        for field in ["authorization_endpoint", "token_endpoint", "registration_endpoint"] {
            for address in
                ["http://as.test/x", "https://127.0.0.1/x", "https://169.254.169.254/x", "javascript:alert(1)"]
            {
                let mut bad = good.clone();
                bad[field] = json!(address);
                let believed = AuthServerMetadata::verify(bad.to_string().as_bytes(), "https://as.test", &trust());
                assert!(matches!(believed, Err(MetadataError::Address(_))), "{field} {address}");
            }
        }
    }
}
