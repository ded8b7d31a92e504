//! Reads the answer of a token endpoint: tokens, or an error code. Only the error code of a refusal is kept, because the rest of the answer
//! could be anything.

use serde::Deserialize;
use servanda_authority::Secret;
use servanda_contract::{
    Timestamp,
    json::{JsonLimits, decode},
};

use crate::scope::OauthScopes;

/// Most bytes of an answer.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
const ANSWER_DEPTH_MAX: usize = 8;
const TOKEN_BYTES_MAX: usize = 16 << 10;
const WORD_BYTES_MAX: usize = 64;
/// A token that claims to be valid for longer is requested again after this time.
const LIFETIME_S_MAX: u64 = 30 * 86_400;

/// Tokens, as they were issued.
#[derive(Debug, Clone)]
pub struct IssuedTokens {
    /// Shown to the upstream.
    pub access: Secret,
    /// Obtains the next tokens.
    pub refresh: Option<Secret>,
    /// When the access token expires, if the server said so.
    pub expires_at: Option<Timestamp>,
    /// Its scopes, if they are not the ones that were requested.
    pub scopes: Option<OauthScopes>,
    /// Who consented, as a token for the client itself (`OpenID` Connect); not verified.
    pub id_token: Option<Secret>,
}

/// The type of token that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedTokenKind<'a> {
    /// An access token, shown as `Bearer`.
    Access,
    /// A token of that type, for another server.
    Typed(&'a str),
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenRequestError {
    /// The server refused, with an error code of the standard.
    #[error("the authorization server refused: {word}")]
    Refused {
        /// For example `invalid_grant`.
        word: String,
    },
    /// The server refused without an error code.
    #[error("the authorization server answered with HTTP status {status}")]
    Status {
        /// The status.
        status: u16,
    },
    /// The answer is not valid.
    #[error("the answer of the authorization server is not of the expected form")]
    Form,
    /// It is a type of token that the gateway cannot show.
    #[error("the authorization server issued a token of an unknown type")]
    Kind,
}

impl TokenRequestError {
    /// Whether the grant itself is used up or withdrawn. Any other refusal concerns the client or the request: it can be fixed, and the
    /// grant stays valid.
    pub fn exhausts_grant(&self) -> bool {
        matches!(self, Self::Refused { word } if word == "invalid_grant")
    }

    /// Whether asking again with the same grant cannot help: it is used up, withdrawn or not for this client.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Refused { word } if matches!(
            word.as_str(),
            "invalid_grant" | "invalid_client" | "unauthorized_client" | "invalid_scope" | "unsupported_grant_type"
        ))
    }
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<f64>,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    scope: Option<String>,
    #[serde(default)]
    issued_token_type: Option<String>,
    #[serde(default)]
    id_token: Option<String>,
}

/// Reads an answer that came at `now`.
pub fn read(
    status: u16,
    body: &[u8],
    kind: RequestedTokenKind<'_>,
    now: Timestamp,
) -> Result<IssuedTokens, TokenRequestError> {
    let limits = JsonLimits { bytes_max: ANSWER_BYTES_MAX, depth_max: ANSWER_DEPTH_MAX };
    let decoded = decode(body, limits);
    if status != 200 {
        let value = decoded.ok();
        let word = value.as_ref().and_then(|value| value.get("error")).and_then(|error| error.as_str());
        let word = word.filter(|word| is_error_code(word)).map(ToOwned::to_owned);
        return Err(word.map_or(TokenRequestError::Status { status }, |word| TokenRequestError::Refused { word }));
    }
    let written: TokenResponse =
        decoded.ok().and_then(|value| serde_json::from_value(value).ok()).ok_or(TokenRequestError::Form)?;
    if !is_token(&written.access_token) || written.refresh_token.as_deref().is_some_and(|token| !is_token(token)) {
        return Err(TokenRequestError::Form);
    }
    let as_asked = match kind {
        RequestedTokenKind::Access => written.token_type.eq_ignore_ascii_case("bearer"),
        RequestedTokenKind::Typed(wanted) => written.issued_token_type.as_deref() == Some(wanted),
    };
    if !as_asked {
        return Err(TokenRequestError::Kind);
    }
    Ok(IssuedTokens {
        access: Secret::from(written.access_token),
        refresh: written.refresh_token.map(Secret::from),
        expires_at: written.expires_in.map(|seconds| after(now, seconds)),
        scopes: written.scope.as_deref().and_then(OauthScopes::read),
        id_token: written.id_token.filter(|token| is_token(token)).map(Secret::from),
    })
}

/// Whether it is an error code that may be shown.
pub(crate) fn is_error_code(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !word.is_empty() && word.len() <= WORD_BYTES_MAX && word.bytes().all(plain)
}

/// Whether it fits into a header.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn after(now: Timestamp, seconds: f64) -> Timestamp {
    let seconds = if seconds.is_finite() { seconds.clamp(0.0, 1e12) } else { 0.0 };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    let seconds = (seconds as u64).min(LIFETIME_S_MAX);
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(seconds * 1000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_ms(1_000);

    #[test]
    fn tokens_are_read_as_they_are_meant() {
        let body = json!({"access_token": "a", "token_type": "bEARER", "expires_in": 60, "refresh_token": "r", "scope": "y x"});
        let tokens = read(200, body.to_string().as_bytes(), RequestedTokenKind::Access, NOW).unwrap();
        assert_eq!((tokens.access.as_text(), tokens.expires_at), (Some("a"), Some(Timestamp::from_unix_ms(61_000))));
        assert_eq!(tokens.scopes.unwrap().line().as_deref(), Some("x y"));
        let forever = json!({"access_token": "a", "token_type": "Bearer", "expires_in": 1e300});
        let tokens = read(200, forever.to_string().as_bytes(), RequestedTokenKind::Access, NOW).unwrap();
        assert_eq!(tokens.expires_at.unwrap().unix_ms(), 1_000 + LIFETIME_S_MAX * 1_000);
        let typed = json!({"access_token": "a", "token_type": "N_A", "issued_token_type": "t"});
        assert!(read(200, typed.to_string().as_bytes(), RequestedTokenKind::Typed("t"), NOW).is_ok());
        assert_eq!(
            read(200, typed.to_string().as_bytes(), RequestedTokenKind::Typed("u"), NOW).unwrap_err(),
            TokenRequestError::Kind
        );
    }

    #[test]
    fn an_answer_without_a_token_is_refused() {
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        let table = [
            (200, json!({"access_token": "a", "token_type": "DPoP"}), TokenRequestError::Kind),
            (200, json!({"access_token": "a"}), TokenRequestError::Form),
            (200, json!({"access_token": "", "token_type": "Bearer"}), TokenRequestError::Form),
            (200, json!({"access_token": "a\r\nX: y", "token_type": "Bearer"}), TokenRequestError::Form),
            (200, json!({"access_token": long, "token_type": "Bearer"}), TokenRequestError::Form),
            (200, json!("a"), TokenRequestError::Form),
            (
                400,
                json!({"error": "invalid_grant", "error_description": "s3cret"}),
                TokenRequestError::Refused { word: "invalid_grant".to_owned() },
            ),
            (401, json!({"error": "has a space"}), TokenRequestError::Status { status: 401 }),
            (503, json!(null), TokenRequestError::Status { status: 503 }),
            (302, json!({"access_token": "a", "token_type": "Bearer"}), TokenRequestError::Status { status: 302 }),
        ];
        for (status, body, expected) in table {
            let found = read(status, body.to_string().as_bytes(), RequestedTokenKind::Access, NOW).unwrap_err();
            assert_eq!(found, expected, "{status} {body}");
            assert!(!found.to_string().contains("s3cret"));
        }
    }
}
