//! The invocation credential: a statement for one upstream about one call, valid for seconds. A signed JWT, because an
//! upstream can check it with only our published key, and every language has libraries for it.
//!
//! It names the user, the proven agents and the payload's digest; a name that a delegating holder merely gave to an
//! agent is not stated. Users of different tenants differ in `sub` alone. It is neither what the caller sent nor any
//! part of it, and it is not accepted as an access token here. The shell decides how an upstream is reached and what it
//! is called.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Serialize;
use serde_json::{Value, json};
use servanda_contract::{CallId, CallerActor, Digest, Timestamp};

use crate::{
    Actor, Secret,
    caller::RecheckedCaller,
    rights::{MissingRights, RequiredRights, scope_line},
    signature::Algorithm,
};

/// `typ`: a kind that no access token has, here or anywhere.
pub const TYPE: &str = "servanda-call+jwt";
/// The longest lifetime.
pub const INVOCATION_LIFETIME_MS_MAX: u64 = 300_000;
const SEED_BYTES: usize = 32;

/// The key that signs statements.
pub struct StatementKey {
    kid: String,
    pair: Ed25519KeyPair,
}

/// The `typ` of a statement about the user of a call: no access token either.
pub const SUBJECT_TYPE: &str = "servanda-subject+jwt";
/// How long such a statement is valid: as long as an exchange may take.
const SUBJECT_LIFETIME_S: u64 = 60;

/// The user for whom an upstream's token is requested.
#[derive(Debug, Clone, Copy)]
pub struct SubjectStatement<'a> {
    /// The issuer: the gateway's identifier.
    pub issuer: &'a str,
    /// The authorization server that it is for.
    pub audience: &'a str,
    /// Distinguishes this statement from every other, also of the same call.
    pub id: &'a str,
    /// The user's tenant.
    pub tenant: &'a str,
    /// The user.
    pub principal: &'a str,
    /// The agents that act for the user, the acting one first. Only proven ones are stated.
    pub actors: &'a [CallerActor],
    /// The upstream's id in the configuration.
    pub upstream: &'a str,
}

/// One call to one upstream.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// The issuer: the gateway's identifier.
    pub issuer: &'a str,
    /// The audience: the upstream's resource identifier.
    pub audience: &'a str,
    /// The upstream's id in the configuration.
    pub upstream: &'a str,
    /// The call.
    pub call_id: &'a CallId,
    /// The digest of the canonical arguments that are sent with it.
    pub payload: Digest,
    /// The longest lifetime.
    pub lifetime_ms: u64,
}

/// Why no statement was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementMintError {
    /// The caller may not make this call.
    #[error("{}", .0.message())]
    Lacks(Box<MissingRights>),
    /// It would expire at once: JWTs count in seconds.
    #[error("less than a second is left of the caller's credential")]
    Lifetime,
    /// The library failed.
    #[error("the statement could not be signed")]
    Signing,
}

/// The bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a statement key must have {SEED_BYTES} bytes and an id")]
pub struct BadStatementKey(());

impl StatementKey {
    /// A key from its seed.
    pub fn from_seed(kid: &str, seed: &Secret) -> Result<Self, BadStatementKey> {
        if kid.is_empty() || seed.expose().len() != SEED_BYTES {
            return Err(BadStatementKey(()));
        }
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose()).map_err(|_| BadStatementKey(()))?;
        Ok(Self { kid: kid.to_owned(), pair })
    }

    /// The public key in the form that upstreams read.
    pub fn public_jwk(&self) -> Value {
        json!({
            "kty": "OKP",
            "crv": "Ed25519",
            "use": "sig",
            "alg": Algorithm::EdDsa.name(),
            "kid": self.kid,
            "x": URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref()),
        })
    }

    /// A statement for one call. It has only the scopes that the call needs, and expires no later than the caller's
    /// credential.
    pub fn mint(
        &self,
        caller: RecheckedCaller<'_>,
        need: &RequiredRights<'_>,
        invocation: &Invocation<'_>,
    ) -> Result<Secret, StatementMintError> {
        let who = caller.authenticated();
        if let Some(lack) = who.rights().lacks(need) {
            return Err(StatementMintError::Lacks(Box::new(lack)));
        }
        let lifetime_ms = invocation.lifetime_ms.min(INVOCATION_LIFETIME_MS_MAX);
        let ends_ms = need.at.unix_ms().saturating_add(lifetime_ms).min(who.rights().expires_at.unix_ms());
        let (issued_s, until_s) = (seconds(need.at), ends_ms / 1000);
        if until_s <= issued_s {
            return Err(StatementMintError::Lifetime);
        }
        let claims = StatementClaims {
            iss: invocation.issuer,
            sub: user_of(who.tenant(), who.principal()),
            aud: invocation.audience,
            jti: invocation.call_id.as_str(),
            iat: issued_s,
            exp: until_s,
            scope: scope_line(need.scopes),
            act: act(who.actors().iter().filter(|actor| actor.is_proven()).map(Actor::name)),
            call: StatementCall {
                tenant: who.tenant(),
                upstream: invocation.upstream,
                tool: need.tool,
                payload: invocation.payload,
            },
        };
        self.sign(&claims).ok_or(StatementMintError::Signing)
    }

    /// A statement about the user of a call, for the authorization server that exchanges it for an upstream's token
    /// (RFC 8693). It says who acts and nothing about rights: that server decides what the token may do.
    pub fn mint_subject(&self, subject: &SubjectStatement<'_>, now: Timestamp) -> Result<Secret, StatementMintError> {
        let issued_s = seconds(now);
        let acting = act(subject.actors.iter().filter(|acting| acting.proven).map(|acting| acting.name.as_str()));
        let mut claims = json!({
            "iss": subject.issuer,
            "sub": user_of(subject.tenant, subject.principal),
            "aud": subject.audience,
            "jti": subject.id,
            "iat": issued_s,
            "exp": issued_s + SUBJECT_LIFETIME_S,
            "servanda/subject": {"tenant": subject.tenant, "upstream": subject.upstream},
        });
        if let (Some(acting), Some(fields)) = (acting, claims.as_object_mut()) {
            fields.insert("act".to_owned(), acting);
        }
        self.sign_as(SUBJECT_TYPE, &claims).ok_or(StatementMintError::Signing)
    }

    /// The beginning that all statements of this key share, for
    /// [`Scrubber::with_stems`](crate::scrubber::Scrubber::with_stems).
    pub fn stem(&self) -> String {
        self.head(TYPE)
    }

    fn head(&self, kind: &str) -> String {
        let header = json!({"typ": kind, "alg": Algorithm::EdDsa.name(), "kid": self.kid});
        format!("{}.", URL_SAFE_NO_PAD.encode(header.to_string()))
    }

    fn sign(&self, claims: &StatementClaims<'_>) -> Option<Secret> {
        self.sign_as(TYPE, claims)
    }

    fn sign_as(&self, kind: &str, claims: &impl Serialize) -> Option<Secret> {
        let signed = format!("{}{}", self.head(kind), URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).ok()?));
        let signature = self.pair.try_sign(signed.as_bytes()).ok()?;
        Some(Secret::from(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))))
    }
}

/// The published keys: those in use, and those whose statements may still be in transit.
pub fn published_keys(keys: &[&StatementKey]) -> Value {
    json!({"keys": keys.iter().map(|key| key.public_jwk()).collect::<Vec<_>>()})
}

#[derive(Serialize)]
struct StatementClaims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    jti: &'a str,
    iat: u64,
    exp: u64,
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    act: Option<Value>,
    #[serde(rename = "servanda/call")]
    call: StatementCall<'a>,
}

#[derive(Serialize)]
struct StatementCall<'a> {
    tenant: &'a str,
    upstream: &'a str,
    tool: &'a str,
    payload: Digest,
}

/// A user as `sub`: unique among all users of this gateway, whatever characters the names of tenants and users have.
fn user_of(tenant: &str, principal: &str) -> String {
    let escaped = |name: &str| name.replace('%', "%25").replace('/', "%2F");
    format!("{}/{}", escaped(tenant), escaped(principal))
}

/// RFC 8693: the acting agent is outermost.
fn act<'a>(actors: impl DoubleEndedIterator<Item = &'a str>) -> Option<Value> {
    actors.rev().fold(None, |before, name| {
        Some(before.map_or_else(|| json!({"sub": name}), |before: Value| json!({"sub": name, "act": before})))
    })
}

const fn seconds(at: Timestamp) -> u64 {
    at.unix_ms() / 1000
}

impl fmt::Debug for StatementKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StatementKey").field("kid", &self.kid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
