//! The `Authorization` header: which kind of credential it presents, and what its bearer is told if the credential is
//! not valid.
//!
//! A credential comes in this header and nowhere else: not in an address, where it would be logged, and not in a form.
//! The kind decides which check applies; no kind is tried after another.

use std::fmt;

use crate::{
    api_key::{self, KeyError, PresentedKey},
    capability::{self, CREDENTIAL_BYTES_MAX, CapabilityError},
    token::{TOKEN_BYTES_MAX, TokenError, UnverifiedToken},
};

/// Bytes of the header that are read: a credential and its scheme.
const HEADER_BYTES_MAX: usize =
    if TOKEN_BYTES_MAX > CREDENTIAL_BYTES_MAX { TOKEN_BYTES_MAX } else { CREDENTIAL_BYTES_MAX } + 16;

/// What was presented, not yet checked.
pub enum Bearer<'a> {
    /// To be looked up by its id.
    ApiKey(PresentedKey),
    /// To be verified with the root keys.
    AgentCredential(&'a str),
    /// To be verified with its issuer's keys.
    AccessToken(UnverifiedToken<'a>),
}

/// Why a caller is not authenticated. The log shows this text; the caller is told less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// The header is not `Bearer` and a credential.
    #[error("the header is not `Bearer` and one credential")]
    Header,
    /// The API key is not valid.
    #[error("API key: {0}")]
    ApiKey(#[from] KeyError),
    /// The agent credential is not valid.
    #[error("agent credential: {0}")]
    AgentCredential(#[from] CapabilityError),
    /// The access token is not valid.
    #[error("access token: {0}")]
    AccessToken(#[from] TokenError),
    /// The access token's issuer is not configured.
    #[error("the access token's issuer is not configured")]
    UnknownIssuer,
    /// The issuer's keys cannot be fetched at present.
    #[error("the keys of the access token's issuer cannot be fetched")]
    KeysUnavailable,
}

impl<'a> Bearer<'a> {
    /// Parses a header's value.
    pub fn read(header: &'a str) -> Result<Self, AuthenticationError> {
        let (scheme, credential) = Some(header)
            .filter(|header| header.len() <= HEADER_BYTES_MAX)
            .and_then(|header| header.split_once(' '))
            .ok_or(AuthenticationError::Header)?;
        let credential = credential.trim_start_matches(' ');
        let one_word = !credential.is_empty() && credential.bytes().all(|byte| byte.is_ascii_graphic());
        if !scheme.eq_ignore_ascii_case("bearer") || !one_word {
            return Err(AuthenticationError::Header);
        }
        if credential.starts_with(api_key::PREFIX) {
            return Ok(Self::ApiKey(PresentedKey::read(credential)?));
        }
        if credential.starts_with(capability::PREFIX) {
            return Ok(Self::AgentCredential(credential));
        }
        Ok(Self::AccessToken(UnverifiedToken::read(credential)?))
    }
}

impl AuthenticationError {
    /// What the caller is told: enough for an honest client to get a better credential, and nothing that tells a forger
    /// which checks it passed.
    pub const fn client_message(&self) -> &'static str {
        match self {
            Self::AccessToken(error) => error.client_message(),
            Self::ApiKey(KeyError::Expired) | Self::AgentCredential(CapabilityError::Expired) => {
                "the credential has expired"
            }
            Self::ApiKey(KeyError::Revoked) => "the credential was revoked",
            Self::Header => "the header must be `Authorization: Bearer` followed by one credential",
            Self::KeysUnavailable => "the access token cannot be checked at present; try again later",
            _ => "the credential is not valid here",
        }
    }

    /// Whether the same credential may be valid later: then the caller should retry, and gets no challenge.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::KeysUnavailable)
    }
}

impl fmt::Debug for Bearer<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ApiKey(_) => "Bearer::ApiKey",
            Self::AgentCredential(_) => "Bearer::AgentCredential",
            Self::AccessToken(_) => "Bearer::AccessToken",
        })
    }
}

#[cfg(test)]
mod tests;
