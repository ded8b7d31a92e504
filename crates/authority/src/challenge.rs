//! What a caller without enough rights is told: `WWW-Authenticate` (RFC 6750, RFC 9728) and the document that says
//! where to get tokens for us.
//!
//! One challenge names every scope that is needed, so that a client asks once. It never says which check a credential
//! failed beyond what helps an honest client.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::rights::{Scope, scope_line};

/// The path of the document, below the origin (RFC 9728 §3).
pub const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The protected resource's metadata (RFC 9728).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceMetadata {
    /// Our resource identifier: what a token's audience must be.
    pub resource: String,
    /// The issuers whose tokens are accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub authorization_servers: Vec<String>,
    /// The scopes that a client may request.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes_supported: BTreeSet<Scope>,
    /// How a token is sent: only in the header.
    pub bearer_methods_supported: [BearerMethod; 1],
    /// The name of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The address of its documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_documentation: Option<String>,
}

/// How a token may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BearerMethod {
    /// `Authorization: Bearer`.
    Header,
}

/// A challenge: a status and a header value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// 401 or 403.
    pub status: u16,
    /// For `WWW-Authenticate`: visible ASCII.
    pub header: String,
}

impl ResourceMetadata {
    /// The metadata of this resource, with tokens of these issuers.
    pub fn new(resource: &str, authorization_servers: Vec<String>, scopes_supported: BTreeSet<Scope>) -> Self {
        Self {
            resource: resource.to_owned(),
            authorization_servers,
            scopes_supported,
            bearer_methods_supported: [BearerMethod::Header],
            resource_name: None,
            resource_documentation: None,
        }
    }

    /// The address of a resource's document: the well-known path goes between the origin and the resource's own path.
    /// `None` if the resource is not an address with an origin.
    pub fn address_of(resource: &str) -> Option<String> {
        let (scheme, rest) = resource.split_once("://")?;
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, path) = rest.split_at_checked(end)?;
        let good = matches!(scheme, "https" | "http") && !host.is_empty() && !path.contains('#');
        let path = if path == "/" { "" } else { path };
        good.then(|| format!("{scheme}://{host}{WELL_KNOWN}{path}"))
    }
}

/// Whether a named resource is ours. An address without a path may be written with or without a slash at the end.
pub(crate) fn names_resource(named: &str, ours: &str) -> bool {
    let bare = |text| {
        let without: &str = str::strip_suffix(text, '/').unwrap_or(text);
        if without.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?'])) { without } else { text }
    };
    bare(named) == bare(ours)
}

impl Challenge {
    /// The caller showed no credential: no error, only where to get one and with which scopes (RFC 6750 §3.1).
    pub fn missing(metadata: &str, scopes: &BTreeSet<Scope>) -> Self {
        Self::new(401, metadata, scopes, None)
    }

    /// The caller showed an invalid credential. `told` is what the caller may know.
    pub fn invalid(metadata: &str, scopes: &BTreeSet<Scope>, told: &str) -> Self {
        Self::new(401, metadata, scopes, Some(("invalid_token", told)))
    }

    /// The caller is authenticated but needs more scopes: names every scope of the call.
    pub fn insufficient(metadata: &str, scopes_needed: &BTreeSet<Scope>) -> Self {
        let told = "this call needs more scopes";
        Self::new(403, metadata, scopes_needed, Some(("insufficient_scope", told)))
    }

    fn new(status: u16, metadata: &str, scopes: &BTreeSet<Scope>, error: Option<(&str, &str)>) -> Self {
        let mut parameters = Vec::new();
        if let Some((code, told)) = error {
            parameters.push(format!("error={}", quoted(code)));
            parameters.push(format!("error_description={}", quoted(told)));
        }
        if !scopes.is_empty() {
            parameters.push(format!("scope={}", quoted(&scope_line(scopes))));
        }
        parameters.push(format!("resource_metadata={}", quoted(metadata)));
        Self { status, header: format!("Bearer {}", parameters.join(", ")) }
    }
}

/// A quoted string (RFC 9110 §5.6.4) in visible ASCII: characters that could end the string are escaped, others that
/// could end the header are replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
