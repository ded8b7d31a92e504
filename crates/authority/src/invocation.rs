//! The invocation credential: a statement for one upstream about one call, good for seconds. A signed JWT, because an
//! upstream that wants to check it has only our published key, and libraries for it in every language.
//!
//! It names the user, the agents that are proven and the payload's digest; a name that an agent was only given by whoever
//! handed on a credential is not vouched for. Whoever reads `sub` alone tells users of different tenants apart. It is not what the caller sent, nor any part of it, and it is
//! not taken as an access token here. How an upstream is reached and what it is called is the shell's to say.

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

/// `typ`: no kind that an access token has, here or anywhere.
pub const TYPE: &str = "servanda-call+jwt";
/// How long one may be good, at most.
pub const INVOCATION_LIFETIME_MS_MAX: u64 = 300_000;
const SEED_BYTES: usize = 32;

/// The key that statements are signed with.
pub struct StatementKey {
    kid: String,
    pair: Ed25519KeyPair,
}

/// `typ` of a statement about whom a call is made for: no access token either.
pub const SUBJECT_TYPE: &str = "servanda-subject+jwt";
/// How long such a statement is good: as long as an exchange may take.
const SUBJECT_LIFETIME_S: u64 = 60;

/// Whom a token of an upstream is wanted for.
#[derive(Debug, Clone, Copy)]
pub struct SubjectStatement<'a> {
    /// Who says so: the gateway's identifier.
    pub issuer: &'a str,
    /// The authorization server that it is for.
    pub audience: &'a str,
    /// Tells this statement from every other, of the same call as well.
    pub id: &'a str,
    /// The user's tenant.
    pub tenant: &'a str,
    /// The user.
    pub principal: &'a str,
    /// Who acts for the user, the one who acts now first. Only those that are proven are stated.
    pub actors: &'a [CallerActor],
    /// The upstream's id in the configuration.
    pub upstream: &'a str,
}

/// One call to one upstream.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// Who says so: the gateway's identifier.
    pub issuer: &'a str,
    /// Whom it is for: the upstream's resource identifier.
    pub audience: &'a str,
    /// The upstream's id in the configuration.
    pub upstream: &'a str,
    /// The call.
    pub call_id: &'a CallId,
    /// Of the canonical arguments that are sent with it.
    pub payload: Digest,
    /// How long it is good, at most.
    pub lifetime_ms: u64,
}

/// Why none was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementMintError {
    /// The caller may not make this call.
    #[error("{}", .0.message())]
    Lacks(Box<MissingRights>),
    /// It would be over at once: JWTs count in seconds.
    #[error("less than a second is left of the caller's credential")]
    Lifetime,
    /// The library's fault.
    #[error("the statement could not be signed")]
    Signing,
}

/// Bytes that are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a statement key is {SEED_BYTES} bytes, and has an id")]
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

    /// The public half as upstreams read it.
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

    /// A statement for one call. It has the scopes the call needs and no other, and ends no later than what it comes from.
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

    /// A statement about who a call is made for, for the authorization server that is to exchange it for a token of the
    /// upstream's (RFC 8693). It says who acts and nothing about rights: what the token may do is that server's to say.
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

    /// How every statement of this key begins, for [`Scrubber::with_stems`](crate::scrubber::Scrubber::with_stems).
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

/// What is published for upstreams: the keys in use, and those whose statements may still be under way.
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

/// A user as `sub`: unlike every other user of this gateway, whatever the names of tenants and users are.
fn user_of(tenant: &str, principal: &str) -> String {
    let escaped = |name: &str| name.replace('%', "%25").replace('/', "%2F");
    format!("{}/{}", escaped(tenant), escaped(principal))
}

/// RFC 8693: the one who acts now outermost.
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
