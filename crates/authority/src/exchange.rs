//! Token exchange (RFC 8693): a user's credential becomes an agent's. This module parses the request and decides what
//! is granted; the holder of the keys verifies the two credentials and creates the third.
//!
//! The rule is one sentence: never more than was asked, never more than the user has, never more than the agent may
//! use, and never for longer than allowed. A scope that the user does not have is refused rather than left out quietly.

mod answer;
mod error;
mod form;

use servanda_contract::Timestamp;

use crate::{
    Actor, AuthenticatedCaller, Narrowing,
    capability::Delegation,
    challenge::names_resource,
    rights::{Rights, Scopes, scope_line},
};

pub use answer::ExchangeAnswer;
pub use error::{ErrorAnswer, ErrorCode, ExchangeError};
pub use form::{ACCESS_TOKEN_TYPE, ExchangeRequest, FORM_BYTES_MAX, GRANT_TYPE, JWT_TYPE, TokenExchangeTerms};

/// The rules of this gateway's exchanges.
#[derive(Debug, Clone)]
pub struct ExchangeRules {
    /// Our resource identifiers: what `resource` and `audience` may name.
    pub targets: Vec<String>,
    /// The default lifetime of an agent's credential.
    pub lifetime_ms_default: u64,
    /// The longest lifetime.
    pub lifetime_ms_max: u64,
}

/// Decides what part of a user's rights an agent gets.
///
/// `subject` is the user and `actor` the agent; both were authenticated. An actor's own credential limits the
/// delegation too, except for its scopes: the user grants those, and an agent's own credential seldom has them.
pub fn decide(
    request: &ExchangeRequest,
    subject: &AuthenticatedCaller,
    actor: Option<&AuthenticatedCaller>,
    rules: &ExchangeRules,
    now: Timestamp,
) -> Result<Delegation, ExchangeError> {
    if let Some(index) =
        request.targets.iter().position(|target| !rules.targets.iter().any(|ours| names_resource(target, ours)))
    {
        return Err(ExchangeError::Target { index });
    }
    let (name, actor_lineage) = acting(request, subject, actor)?;
    let mut narrowing = request.terms.narrowing.clone();
    let named = narrowing.scopes.iter().filter(|scopes| **scopes != Scopes::All);
    for asked in request.scopes.iter().chain(named) {
        refuse_beyond(asked, subject)?;
    }
    if let Some(asked) = &request.scopes {
        narrowing.scopes = Some(match narrowing.scopes {
            Some(also) => asked.narrowed_by(&also),
            None => asked.clone(),
        });
    }
    let narrowing = within(&narrowing, actor);
    if subject.rights().depth_left == 0 {
        return Err(ExchangeError::Depth);
    }
    let rights = subject.rights().narrowed_by(&narrowing.as_rights());
    if rights.expires_at <= now {
        return Err(ExchangeError::Lifetime);
    }
    if rights.tools.is_empty() || (narrowing.scopes.is_some() && rights.scopes == Scopes::none()) {
        return Err(ExchangeError::NothingLeft);
    }
    let asked_ms = request.terms.lifetime_ms.unwrap_or(rules.lifetime_ms_default);
    let lifetime_ms = asked_ms.min(rules.lifetime_ms_max);
    let actor_budgets = actor.map_or_else(Vec::new, |actor| actor.budgets().to_vec());
    Ok(Delegation { actor: name, actor_lineage, actor_budgets, narrowing, lifetime_ms })
}

/// The acting agent: the one that the actor's credential proves, else the one that the user named.
fn acting(
    request: &ExchangeRequest,
    subject: &AuthenticatedCaller,
    actor: Option<&AuthenticatedCaller>,
) -> Result<(Actor, Vec<crate::CredentialId>), ExchangeError> {
    match (actor, &request.terms.agent) {
        (Some(actor), named) => {
            let name = Actor::proven(actor.principal()).map_err(|_| ExchangeError::Actor)?;
            let other_name = named.as_ref().is_some_and(|named| named != name.name());
            // An agent of one tenant never acts for a user of another, nor under a name that it did not prove. A
            // credential that already acts for a user proves that user's name, not the agent's.
            if actor.tenant() != subject.tenant() || other_name || !actor.actors().is_empty() {
                return Err(ExchangeError::Actor);
            }
            Ok((name, actor.lineage().to_vec()))
        }
        (None, Some(named)) if request.actor_token.is_none() => {
            let name = Actor::named(named).map_err(|_| ExchangeError::Actor)?;
            Ok((name, Vec::new()))
        }
        _ => Err(ExchangeError::Actor),
    }
}

/// Refuses all scopes that the user does not have, in one answer.
fn refuse_beyond(asked: &Scopes, subject: &AuthenticatedCaller) -> Result<(), ExchangeError> {
    let Scopes::These(asked) = asked else { return Err(ExchangeError::NothingLeft) };
    let missing = subject.rights().scopes.missing(asked);
    if missing.is_empty() { Ok(()) } else { Err(ExchangeError::Scope { missing: scope_line(&missing) }) }
}

/// The narrowing, further narrowed by the actor's own credential.
fn within(narrowing: &Narrowing, actor: Option<&AuthenticatedCaller>) -> Narrowing {
    let Some(actor) = actor else { return narrowing.clone() };
    let own = Rights { scopes: Scopes::All, ..actor.rights().clone() };
    let both = narrowing.as_rights().narrowed_by(&own);
    Narrowing {
        scopes: narrowing.scopes.clone(),
        tools: Some(both.tools),
        resources: Some(both.resources),
        ceiling: Some(both.ceiling),
        budget: both.budget,
        expires_at: Some(both.expires_at),
        depth_left: Some(both.depth_left),
    }
}

#[cfg(test)]
mod tests;
