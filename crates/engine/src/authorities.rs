//! What the operator lets whom do, in one world: the policies in force and who the callers are to them.
//!
//! Policies are validated against this world's contracts, so they are replaced with it. Who a caller is to the policies is worked out
//! once and kept, because everything that is settled for a principal is remembered with it; there are at most so many.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use servanda_authority::{Actor, Authenticated, rights::Scopes};
use servanda_catalog::Catalog;
use servanda_contract::ToolContract;
use servanda_gates::{InForce, Mandate};
use servanda_policy::{
    Defaults, Identity, Limits, LoadFailure, Policies, Principal, PrincipalError, ToolFacts, Vocabulary,
    VocabularyError,
};

/// Callers whose principals are kept. When there are more, all are forgotten and worked out again as they come.
const PRINCIPALS_MAX: usize = 4_096;
/// What goes before the name of an agent that nobody but its holder vouches for.
const UNPROVEN: &str = "unproven:";

/// The policies of a world.
pub struct Authorities {
    policies: Policies,
    environment: String,
    principals: Mutex<HashMap<Party, Arc<Principal>>>,
}

/// Why there are no policies.
#[derive(Debug, thiserror::Error)]
pub enum NoAuthorities {
    /// The contracts cannot be told to the policy engine.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A policy is wrong.
    #[error(transparent)]
    Policies(#[from] LoadFailure),
}

/// A caller, as far as policies can tell.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Party {
    tenant: String,
    principal: String,
    agent: Option<String>,
    scopes: BTreeSet<String>,
    groups: BTreeSet<String>,
}

impl Authorities {
    /// Policies in force, in an environment of that name.
    pub fn new(policies: Policies, environment: &str) -> Self {
        Self { policies, environment: environment.to_owned(), principals: Mutex::default() }
    }

    /// What holds for the tools of a catalog where nobody wrote anything.
    pub fn of_defaults(catalog: &Catalog) -> Result<Self, NoAuthorities> {
        let contracts: Vec<&ToolContract> = catalog.entries().map(|(_, entry)| entry.contract.contract()).collect();
        let vocabulary = Vocabulary::of(contracts.into_iter().map(ToolFacts::from))?;
        let policies = Policies::load(Arc::new(vocabulary), &[], Defaults::On, &Limits::default())?;
        Ok(Self::new(policies, "local"))
    }

    /// The policies.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Who a caller is to the policies.
    pub(crate) fn principal(&self, authenticated: &Authenticated) -> Result<Arc<Principal>, PrincipalError> {
        let party = Party::of(authenticated);
        let mut principals = self.principals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(principal) = principals.get(&party) {
            return Ok(Arc::clone(principal));
        }
        let principal = Arc::new(party.principal(self.policies.vocabulary())?);
        if principals.len() >= PRINCIPALS_MAX {
            principals.clear();
        }
        principals.insert(party, Arc::clone(&principal));
        Ok(principal)
    }

    /// What a call of theirs is judged under.
    pub(crate) fn mandate<'a>(&'a self, authenticated: &'a Authenticated, principal: &'a Principal) -> Mandate<'a> {
        let policy = InForce { policies: &self.policies, principal, environment: &self.environment };
        Mandate::Caller { authenticated, policy }
    }
}

impl Party {
    fn of(authenticated: &Authenticated) -> Self {
        // A rule that names an agent is not met by whoever calls itself so.
        let prefix = |actor: &Actor| if actor.is_proven() { "" } else { UNPROVEN };
        let agent = authenticated.actors().first().map(|actor| format!("{}{}", prefix(actor), actor.name()));
        let scopes = match &authenticated.rights().scopes {
            Scopes::All => BTreeSet::new(),
            Scopes::These(scopes) => scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        };
        let (tenant, principal) = (authenticated.tenant().to_owned(), authenticated.principal().to_owned());
        Self { tenant, principal, agent, scopes, groups: authenticated.groups().clone() }
    }

    fn principal(&self, vocabulary: &Vocabulary) -> Result<Principal, PrincipalError> {
        let Self { tenant, principal, agent, scopes, groups } = self.clone();
        let user = Identity { id: principal, tenant, scopes, groups };
        match agent {
            None => Principal::user(vocabulary, &user),
            Some(id) => Principal::agent(vocabulary, &Identity { id, ..user.clone() }, Some(&user)),
        }
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorities").field("policies", &self.policies).finish_non_exhaustive()
    }
}
