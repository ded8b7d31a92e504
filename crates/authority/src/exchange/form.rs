//! Parses the request: a form, each parameter at most once (RFC 6749 §3.1), tokens kept as secrets.
//!
//! Everything that OAuth does not define comes in one parameter of ours, `servanda_terms`: strict JSON.

use serde::Deserialize;
use servanda_contract::json::{JsonLimits, decode};

use super::ExchangeError;
use crate::{Narrowing, Secret, rights::Scopes};

/// The `grant_type` of an exchange.
pub const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The token type that is issued, and that may be presented.
pub const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";
/// Another token type that may be presented.
pub const JWT_TYPE: &str = "urn:ietf:params:oauth:token-type:jwt";
/// Bytes of a form: two credentials and the other parameters.
pub const FORM_BYTES_MAX: usize = 64 << 10;

const PARAMETERS_MAX: usize = 32;
const TARGETS_MAX: usize = 8;
const TERMS_BYTES_MAX: usize = 16 << 10;
const TERMS_DEPTH_MAX: usize = 8;

/// A parsed request. Neither credential is checked yet.
#[derive(Debug)]
pub struct ExchangeRequest {
    /// The user's credential.
    pub subject_token: Secret,
    /// The agent's credential.
    pub actor_token: Option<Secret>,
    /// `resource` and `audience`: where the new credential will be used.
    pub targets: Vec<String>,
    /// The requested scopes.
    pub scopes: Option<Scopes>,
    /// The other requested terms.
    pub terms: TokenExchangeTerms,
}

/// The terms that OAuth does not define.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenExchangeTerms {
    /// The agent's name, if it has no credential of its own.
    #[serde(default)]
    pub agent: Option<String>,
    /// The requested lifetime.
    #[serde(default)]
    pub lifetime_ms: Option<u64>,
    /// Tools, resources, ceiling, budget and depth.
    #[serde(default)]
    pub narrowing: Narrowing,
}

impl ExchangeRequest {
    /// Parses a form.
    pub fn read(form: &[u8]) -> Result<Self, ExchangeError> {
        if form.len() > FORM_BYTES_MAX {
            return Err(ExchangeError::Request("the form is too long"));
        }
        let parameters: Vec<_> = form_urlencoded::parse(form).take(PARAMETERS_MAX + 1).collect();
        if parameters.len() > PARAMETERS_MAX {
            return Err(ExchangeError::Request("the form has too many parameters"));
        }
        let one = |wanted: &'static str| {
            // RFC 6749: a parameter without a value counts as omitted.
            let mut found = parameters.iter().filter(|(name, value)| name == wanted && !value.is_empty());
            match (found.next(), found.next()) {
                (found, None) => Ok(found.map(|(_, value)| value.as_ref())),
                _ => Err(ExchangeError::Request("a parameter is repeated")),
            }
        };
        match one("grant_type")? {
            Some(GRANT_TYPE) => {}
            Some(_) => return Err(ExchangeError::GrantType),
            None => return Err(ExchangeError::Request("`grant_type` is missing")),
        }
        let subject_token = one("subject_token")?.ok_or(ExchangeError::Request("`subject_token` is missing"))?;
        known_type(one("subject_token_type")?, "`subject_token_type` is missing or not supported here")?;
        let actor_token = one("actor_token")?;
        match (actor_token, one("actor_token_type")?) {
            (None, None) => {}
            (None, Some(_)) => return Err(ExchangeError::Request("`actor_token_type` needs an `actor_token`")),
            (Some(_), kind) => known_type(kind, "`actor_token_type` is missing or not supported here")?,
        }
        if one("requested_token_type")?.is_some_and(|kind| kind != ACCESS_TOKEN_TYPE) {
            return Err(ExchangeError::Request("only access tokens are issued here"));
        }
        // Only these two parameters may be repeated.
        let targets: Vec<String> = parameters
            .iter()
            .filter(|(name, value)| matches!(name.as_ref(), "resource" | "audience") && !value.is_empty())
            .map(|(_, value)| value.as_ref().to_owned())
            .collect();
        if targets.len() > TARGETS_MAX {
            return Err(ExchangeError::Request("the form names too many targets"));
        }
        let scopes = one("scope")?.map(Scopes::parse_line).transpose().map_err(|_| ExchangeError::ScopeText)?;
        Ok(Self {
            subject_token: Secret::from(subject_token.to_owned()),
            actor_token: actor_token.map(|token| Secret::from(token.to_owned())),
            targets,
            scopes,
            terms: one("servanda_terms")?.map(TokenExchangeTerms::read).transpose()?.unwrap_or_default(),
        })
    }
}

impl TokenExchangeTerms {
    fn read(text: &str) -> Result<Self, ExchangeError> {
        let limits = JsonLimits { bytes_max: TERMS_BYTES_MAX, depth_max: TERMS_DEPTH_MAX };
        let refused = ExchangeError::Request(
            "`servanda_terms` is not strict JSON of the members agent, lifetime_ms and narrowing (scopes, tools, resources, \
             ceiling, budget, expires_at, depth_left)",
        );
        let value = decode(text.as_bytes(), limits).map_err(|_| refused.clone())?;
        serde_json::from_value(value).map_err(|_| refused)
    }
}

fn known_type(kind: Option<&str>, otherwise: &'static str) -> Result<(), ExchangeError> {
    match kind {
        Some(ACCESS_TOKEN_TYPE | JWT_TYPE) => Ok(()),
        _ => Err(ExchangeError::Request(otherwise)),
    }
}
