//! The principals of callers. Other caches use a principal as their key, so the same caller must get the same principal again. A lookup
//! allocates nothing.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher as _, Hash, Hasher, RandomState},
    sync::{Arc, PoisonError, RwLock},
};

use servanda_authority::{
    Actor, AuthenticatedCaller,
    rights::{Scope, Scopes},
};
use servanda_contract::{Caller, CallerActor};
use servanda_policy::{PartyIdentity, Principal, PrincipalError, Vocabulary};

/// How many callers' principals are cached. When there are more, the cache is emptied and filled again.
const PRINCIPALS_MAX: usize = 4_096;

/// The cached principals.
#[derive(Debug, Default)]
pub(super) struct PolicyPrincipalCache {
    state: RandomState,
    /// By a hash of the caller's facts. Two callers with the same hash replace each other, which only costs time.
    known: RwLock<HashMap<u64, CachedPrincipal>>,
}

#[derive(Debug)]
struct CachedPrincipal {
    party: PrincipalFacts,
    principal: Arc<Principal>,
}

/// What policies can see of a caller.
#[derive(Debug)]
pub(super) struct PrincipalFacts {
    tenant: String,
    principal: String,
    /// The actors, the present one first, and whether each is proven.
    actors: Vec<CallerActor>,
    scopes: Vec<String>,
    groups: BTreeSet<String>,
}

impl PolicyPrincipalCache {
    /// The principal of a caller.
    pub(super) fn resolve(
        &self,
        authenticated: &AuthenticatedCaller,
        vocabulary: &Vocabulary,
    ) -> Result<Arc<Principal>, PrincipalError> {
        let number = self.hash(authenticated);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&number).filter(|known| known.party.matches(authenticated)) {
            return Ok(Arc::clone(&known.principal));
        }
        drop(known);
        let party = PrincipalFacts::from_authenticated(authenticated);
        let principal = Arc::new(party.principal(vocabulary)?);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PRINCIPALS_MAX {
            known.clear();
        }
        known.insert(number, CachedPrincipal { party, principal: Arc::clone(&principal) });
        Ok(principal)
    }

    fn hash(&self, authenticated: &AuthenticatedCaller) -> u64 {
        let mut hasher = self.state.build_hasher();
        (authenticated.tenant(), authenticated.principal()).hash(&mut hasher);
        authenticated.actors().hash(&mut hasher);
        scopes(authenticated).for_each(|scope| scope.hash(&mut hasher));
        authenticated.groups().hash(&mut hasher);
        hasher.finish()
    }
}

impl PrincipalFacts {
    fn from_authenticated(authenticated: &AuthenticatedCaller) -> Self {
        Self {
            tenant: authenticated.tenant().to_owned(),
            principal: authenticated.principal().to_owned(),
            actors: authenticated.actors().iter().map(acting).collect(),
            scopes: scopes(authenticated).map(str::to_owned).collect(),
            groups: authenticated.groups().clone(),
        }
    }

    /// The same, from a record.
    pub(super) fn from_record(caller: &Caller, scopes: &[String], groups: &[String]) -> Self {
        Self {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            actors: caller.actors.clone(),
            scopes: scopes.to_vec(),
            groups: groups.iter().cloned().collect(),
        }
    }

    fn matches(&self, authenticated: &AuthenticatedCaller) -> bool {
        let own = self.actors.iter().map(|actor| (actor.name.as_str(), actor.proven));
        let actors = authenticated.actors().iter().map(|actor| (actor.name(), actor.is_proven()));
        self.tenant == authenticated.tenant()
            && self.principal == authenticated.principal()
            && own.eq(actors)
            && scopes(authenticated).eq(self.scopes.iter().map(String::as_str))
            && self.groups == *authenticated.groups()
    }

    pub(super) fn principal(&self, vocabulary: &Vocabulary) -> Result<Principal, PrincipalError> {
        let user = PartyIdentity {
            id: self.principal.clone(),
            tenant: self.tenant.clone(),
            scopes: self.scopes.iter().cloned().collect(),
            groups: self.groups.clone(),
        };
        Principal::acting(vocabulary, &user, &self.actors)
    }
}

fn acting(actor: &Actor) -> CallerActor {
    CallerActor { name: actor.name().to_owned(), proven: actor.is_proven() }
}

fn scopes(authenticated: &AuthenticatedCaller) -> impl Iterator<Item = &str> {
    let scopes = match &authenticated.rights().scopes {
        Scopes::All => None,
        Scopes::These(scopes) => Some(scopes),
    };
    scopes.into_iter().flatten().map(Scope::as_str)
}
