//! Reads the claims of a verified token: the audience, the validity, the user and the agents, and the scopes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use servanda_contract::Timestamp;

use super::{Issuer, LEEWAY_MS_MAX, TenantSource, TokenError};
use crate::{
    Actor,
    caller::{ACTORS_MAX, checked_groups, checked_name, checked_tenant},
    challenge::names_resource,
    rights::{Rights, Scopes},
};

/// Bytes of a token's own id.
const ID_BYTES_MAX: usize = 256;
/// Audiences that are read.
const AUDIENCES_MAX: usize = 64;

/// The result.
pub(super) struct AccessTokenClaims {
    pub(super) tenant: String,
    pub(super) principal: String,
    pub(super) groups: BTreeSet<String>,
    pub(super) actors: Vec<Actor>,
    pub(super) rights: Rights,
    pub(super) id: Option<String>,
}

/// The user, by the claims that the operator configured.
pub(super) struct ClaimedUser {
    pub(super) tenant: String,
    pub(super) principal: String,
    pub(super) groups: BTreeSet<String>,
}

/// Reads the claims; the signature was verified before.
pub(super) fn read(
    claims: &Map<String, Value>,
    issuer: &Issuer,
    now: Timestamp,
) -> Result<AccessTokenClaims, TokenError> {
    if !names_audience(claims, &issuer.audience)? {
        return Err(TokenError::Audience);
    }
    let expires_at = times(claims, issuer, now)?;
    let token = Rights { scopes: scopes(claims)?, expires_at, ..Rights::unlimited() };
    let ClaimedUser { tenant, principal, groups } = user(claims, issuer)?;
    let id = match claims.get("jti") {
        None => None,
        Some(Value::String(id)) if (1..=ID_BYTES_MAX).contains(&id.len()) => Some(id.clone()),
        Some(_) => return Err(TokenError::Claim("jti")),
    };
    Ok(AccessTokenClaims {
        tenant,
        principal,
        groups,
        actors: actors(claims)?,
        rights: issuer.rights.narrowed_by(&token),
        id,
    })
}

/// Reads the claims that name the user. Access tokens and ID tokens of one issuer name the same user by them.
pub(super) fn user(claims: &Map<String, Value>, issuer: &Issuer) -> Result<ClaimedUser, TokenError> {
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str).ok_or(TokenError::ConfiguredClaim);
    let tenant = match &issuer.tenant {
        TenantSource::Fixed(tenant) => tenant.clone(),
        TenantSource::Claim { claim, tenants } => {
            let tenant = checked_tenant(text(claim)?).map_err(|_| TokenError::ConfiguredClaim)?;
            if tenants.as_ref().is_some_and(|tenants| !tenants.contains(&tenant)) {
                return Err(TokenError::Tenant);
            }
            tenant
        }
    };
    let principal = match &issuer.principal_claim {
        Some(claim) => text(claim)?,
        None => text("sub").map_err(|_| TokenError::Claim("sub"))?,
    };
    checked_name(principal).map_err(|_| TokenError::ConfiguredClaim)?;
    let principal = checked_name(&format!("{}{principal}", issuer.principal_prefix));
    let principal = principal.map_err(|_| TokenError::ConfiguredClaim)?;
    let groups = groups(claims, issuer.groups_claim.as_deref())?;
    Ok(ClaimedUser { tenant, principal, groups })
}

/// A list of names, or one. A user without groups has no such claim. A claim that cannot be read is an error and not an
/// empty list, because some rules forbid something to a group.
fn groups(claims: &Map<String, Value>, claim: Option<&str>) -> Result<BTreeSet<String>, TokenError> {
    let Some(claim) = claim else { return Ok(BTreeSet::new()) };
    let listed = match claims.get(claim) {
        None if is_elsewhere(claims, claim) => return Err(TokenError::ConfiguredClaim),
        None => return Ok(BTreeSet::new()),
        Some(Value::String(group)) => vec![group.as_str()],
        Some(Value::Array(groups)) => {
            let names: Option<Vec<&str>> = groups.iter().map(Value::as_str).collect();
            names.ok_or(TokenError::ConfiguredClaim)?
        }
        Some(_) => return Err(TokenError::ConfiguredClaim),
    };
    checked_groups(listed).map_err(|_| TokenError::ConfiguredClaim)
}

/// Whether the claim was left out because it is too long, and must be fetched elsewhere (`OpenID` Connect §5.6.2, and
/// one issuer's own member for it).
fn is_elsewhere(claims: &Map<String, Value>, claim: &str) -> bool {
    let named = claims.get("_claim_names").and_then(|names| names.get(claim)).is_some();
    named || (claim == "groups" && claims.get("hasgroups").is_some_and(|has| *has != Value::Bool(false)))
}

fn names_audience(claims: &Map<String, Value>, ours: &str) -> Result<bool, TokenError> {
    Ok(audiences(claims)?.into_iter().any(|audience| names_resource(audience, ours)))
}

/// The audiences: one, or a list.
pub(super) fn audiences(claims: &Map<String, Value>) -> Result<Vec<&str>, TokenError> {
    match claims.get("aud") {
        Some(Value::String(audience)) => Ok(vec![audience]),
        Some(Value::Array(audiences)) if audiences.len() <= AUDIENCES_MAX => {
            let audiences: Option<Vec<&str>> = audiences.iter().map(Value::as_str).collect();
            audiences.ok_or(TokenError::Claim("aud"))
        }
        _ => Err(TokenError::Claim("aud")),
    }
}

/// When it expires here: later than the issuer wrote by the leeway, because our clock may be that far ahead.
pub(super) fn times(claims: &Map<String, Value>, issuer: &Issuer, now: Timestamp) -> Result<Timestamp, TokenError> {
    let leeway_ms = issuer.leeway_ms.min(LEEWAY_MS_MAX);
    let (early_ms, late_ms) = (now.unix_ms().saturating_add(leeway_ms), now.unix_ms().saturating_sub(leeway_ms));
    let expires_ms = moment_ms(claims, "exp")?.ok_or(TokenError::Claim("exp"))?;
    if late_ms >= expires_ms {
        return Err(TokenError::Expired);
    }
    for name in ["nbf", "iat"] {
        if moment_ms(claims, name)?.is_some_and(|begins_ms| early_ms < begins_ms) {
            return Err(TokenError::NotYet);
        }
    }
    Ok(Timestamp::from_unix_ms(expires_ms.saturating_add(leeway_ms)))
}

/// A `NumericDate`: seconds, which may have a fraction.
pub(super) fn moment_ms(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64().or_else(|| {
        let seconds = value.as_f64().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)?;
        // Anything later than the year 10000 ends then.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded on both sides")]
        Some(seconds.min(253_402_300_800.0) as u64)
    });
    whole.map(|seconds| Some(seconds.saturating_mul(1000))).ok_or(TokenError::Claim(name))
}

/// `scope` as a line, or `scp` as a line or a list. If both are present, the intersection: neither is a way around the
/// other.
fn scopes(claims: &Map<String, Value>) -> Result<Scopes, TokenError> {
    let line = match claims.get("scope") {
        None => None,
        Some(Value::String(line)) => Some(Scopes::parse_line(line).map_err(TokenError::Scopes)?),
        Some(_) => return Err(TokenError::Claim("scope")),
    };
    let listed = match claims.get("scp") {
        None => None,
        Some(Value::String(line)) => Some(Scopes::parse_line(line).map_err(TokenError::Scopes)?),
        Some(Value::Array(words)) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            Some(Scopes::from_words(words.ok_or(TokenError::Claim("scp"))?).map_err(TokenError::Scopes)?)
        }
        Some(_) => return Err(TokenError::Claim("scp")),
    };
    Ok(match (line, listed) {
        (Some(one), Some(other)) => one.narrowed_by(&other),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => Scopes::none(),
    })
}

/// RFC 8693: the acting agent is outermost, earlier ones inside.
fn actors(claims: &Map<String, Value>) -> Result<Vec<Actor>, TokenError> {
    let mut actors = Vec::new();
    let mut next = claims.get("act");
    while let Some(actor) = next {
        if actors.len() >= ACTORS_MAX {
            return Err(TokenError::Actors);
        }
        let name = actor.get("sub").and_then(Value::as_str).ok_or(TokenError::Claim("act"))?;
        actors.push(Actor::proven(name).map_err(|_| TokenError::Claim("act"))?);
        next = actor.get("act");
    }
    Ok(actors)
}
