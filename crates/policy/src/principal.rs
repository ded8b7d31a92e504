//! The caller as policies see it. Names are qualified by their tenant, so that one tenant's `admins` are never mistaken for
//! another's.
//!
//! Anyone with a credential can add a name of their choice to it. A claimed name counts against the caller and never for it:
//! the principal is the party that is proven to act, and a call must also be allowed under every claimed name.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use cedar_policy::{Entities, Entity, EntityUid, RestrictedExpression};
use servanda_approval::{ApprovalSettings, TrustLevel};
use servanda_contract::{CallerActor, record::Texts};

use crate::{
    entity_types::{EntityTypes, uid},
    facts::texts,
    principal_cache::PrincipalCache,
    principal_role::PrincipalRole,
    vocabulary::{PolicyTool, Vocabulary},
};

/// The most groups and scopes of one party.
const MEMBERSHIPS_MAX: usize = 256;

/// One authenticated party: a person or an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartyIdentity {
    /// Its name within the tenant.
    pub id: String,
    /// Its tenant.
    pub tenant: String,
    /// The scopes that it was granted.
    pub scopes: BTreeSet<String>,
    /// The groups it is in, by their names within the tenant.
    pub groups: BTreeSet<String>,
}

/// A principal, created once and used for any number of calls.
#[derive(Debug, Clone)]
pub struct Principal {
    pub(crate) uid: EntityUid,
    entities: Vec<Entity>,
    /// The same, as Cedar entities.
    store: Entities,
    pub(crate) cache: Arc<PrincipalCache>,
    /// The principal itself and everything that contains it. Only policies with one of these in their scope can apply.
    pub(crate) keys: Vec<(u64, EntityUid)>,
    scopes: Texts,
    groups: Texts,
    pub(crate) tenant: String,
    /// The other names for which policies must be evaluated.
    others: Vec<(PrincipalRole, Principal)>,
    /// Whether the name that acts now is only claimed.
    acts_under_a_claim: bool,
}

/// A party that no policy can refer to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrincipalError {
    /// `tenant/name` would be ambiguous.
    #[error("the tenant {tenant:?} is empty or contains `/`")]
    Tenant {
        /// The tenant.
        tenant: String,
    },
    /// Too many memberships.
    #[error("`{id}` has more than {MEMBERSHIPS_MAX} groups or scopes")]
    Memberships {
        /// The party.
        id: String,
    },
    /// Cedar refused an entity that we built: a defect of ours.
    #[error("the policy engine does not accept the principal: {reason}")]
    Engine {
        /// Cedar's message.
        reason: String,
    },
}

impl Principal {
    /// A person, or a service that acts for itself.
    pub fn user(vocabulary: &Vocabulary, user: &PartyIdentity) -> Result<Self, PrincipalError> {
        let names = vocabulary.names();
        user.check()?;
        let (uid, groups) = (user.uid(&names.user), user.group_uids(names));
        let entity = entity(uid.clone(), user.attributes(), groups.iter().cloned().collect())?;
        let keys = [uid.clone()].into_iter().chain(groups).map(keyed).collect();
        Self::assemble(uid, vec![entity], keys, user)
    }

    /// An agent, with the person it acts for, if there is one. A policy about that person or their groups applies to the agent
    /// too.
    pub fn agent(
        vocabulary: &Vocabulary,
        agent: &PartyIdentity,
        user: Option<&PartyIdentity>,
    ) -> Result<Self, PrincipalError> {
        let names = vocabulary.names();
        agent.check()?;
        let uid = agent.uid(&names.agent);
        let mut attributes = agent.attributes();
        let mut parents: HashSet<EntityUid> = agent.group_uids(names).into_iter().collect();
        let mut entities = Vec::new();
        if let Some(user) = user {
            let acted_for = Self::user(vocabulary, user)?;
            attributes.insert("user".to_owned(), RestrictedExpression::new_entity_uid(acted_for.uid));
            // All ancestors, not only the parents, so that a call does not have to compute them.
            parents.extend(acted_for.keys.into_iter().map(|(_, key)| key));
            entities = acted_for.entities;
        }
        let keys = [uid.clone()].into_iter().chain(parents.iter().cloned()).map(keyed).collect();
        entities.push(entity(uid.clone(), attributes, parents)?);
        Self::assemble(uid, entities, keys, agent)
    }

    /// The agents that act for a user; the one that acts now comes first. The principal is the first that is proven, or the
    /// user if none is.
    pub fn acting(
        vocabulary: &Vocabulary,
        user: &PartyIdentity,
        actors: &[CallerActor],
    ) -> Result<Self, PrincipalError> {
        let agent = |actor: &CallerActor| {
            let agent = PartyIdentity { id: actor.name.clone(), ..user.clone() };
            Self::agent(vocabulary, &agent, Some(user))
        };
        let proven = actors.iter().position(|actor| actor.proven);
        let mut principal = proven.and_then(|at| actors.get(at)).map_or_else(|| Self::user(vocabulary, user), agent)?;
        principal.acts_under_a_claim = actors.first().is_some_and(|actor| !actor.proven);
        for (at, actor) in actors.iter().enumerate().filter(|(at, _)| Some(*at) != proven) {
            let role =
                if proven.is_none_or(|proven| at < proven) { PrincipalRole::Claimed } else { PrincipalRole::Delegator };
            let other = agent(actor)?;
            let known = principal.roles().any(|(_, known)| known.uid == other.uid);
            if !known {
                principal.others.push((role, other));
            }
        }
        Ok(principal)
    }

    /// Every party for which a call must be evaluated: the principal first. Most principals have no others.
    pub(crate) fn roles(&self) -> impl Iterator<Item = (PrincipalRole, &Self)> {
        let others = self.others.iter().map(|(role, other)| (*role, other));
        std::iter::once((PrincipalRole::Proven, self)).chain(others)
    }

    /// Whether there are no other names.
    pub(crate) const fn acts_alone(&self) -> bool {
        self.others.is_empty()
    }

    /// The scopes that it was granted, as policies see them.
    pub fn scopes(&self) -> Texts {
        self.scopes.clone()
    }

    /// The groups it is in, as policies see them.
    pub fn groups(&self) -> Texts {
        self.groups.clone()
    }

    /// How far it is trusted to change things alone.
    pub fn trust(&self, settings: &ApprovalSettings) -> TrustLevel {
        if self.groups.as_slice().iter().any(|group| settings.trusted_groups.contains(group)) {
            return TrustLevel::Trusted;
        }
        if self.acts_under_a_claim { TrustLevel::Claimed } else { TrustLevel::Proven }
    }

    fn assemble(
        uid: EntityUid,
        entities: Vec<Entity>,
        keys: Vec<(u64, EntityUid)>,
        identity: &PartyIdentity,
    ) -> Result<Self, PrincipalError> {
        let store = Entities::from_entities(entities.iter().cloned(), None)
            .map_err(|error| PrincipalError::Engine { reason: error.to_string() })?;
        let scopes = identity.scopes.iter().cloned().collect();
        let groups = identity.groups.iter().cloned().collect();
        let tenant = identity.tenant.clone();
        let (cache, others, acts_under_a_claim) = (Arc::default(), Vec::new(), false);
        Ok(Self { uid, entities, store, cache, keys, scopes, groups, tenant, others, acts_under_a_claim })
    }

    /// Every entity that a policy can read when this principal calls this tool.
    pub(crate) fn entities_with(&self, tool: &PolicyTool) -> Result<Arc<Entities>, String> {
        if let Some(entities) = self.cache.entities.get(&tool.number) {
            return Ok(entities);
        }
        let entities = self.store.clone().add_entities(tool.entities()?, None);
        let entities = Arc::new(entities.map_err(|error| error.to_string())?);
        self.cache.entities.insert(tool.number, Arc::clone(&entities));
        Ok(entities)
    }
}

/// A hash of a party, computed once because names are long. Two parties may have the same hash, so it only finds candidates.
pub(crate) fn fingerprint(uid: &EntityUid) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

fn keyed(uid: EntityUid) -> (u64, EntityUid) {
    (fingerprint(&uid), uid)
}

impl PartyIdentity {
    fn check(&self) -> Result<(), PrincipalError> {
        if self.tenant.is_empty() || self.tenant.contains('/') {
            return Err(PrincipalError::Tenant { tenant: self.tenant.clone() });
        }
        if self.groups.len().max(self.scopes.len()) > MEMBERSHIPS_MAX {
            return Err(PrincipalError::Memberships { id: self.id.clone() });
        }
        Ok(())
    }

    fn uid(&self, kind: &cedar_policy::EntityTypeName) -> EntityUid {
        uid(kind, &format!("{}/{}", self.tenant, self.id))
    }

    fn group_uids(&self, names: &EntityTypes) -> Vec<EntityUid> {
        self.groups.iter().map(|group| uid(&names.group, &format!("{}/{group}", self.tenant))).collect()
    }

    fn attributes(&self) -> HashMap<String, RestrictedExpression> {
        HashMap::from([
            ("id".to_owned(), RestrictedExpression::new_string(self.id.clone())),
            ("tenant".to_owned(), RestrictedExpression::new_string(self.tenant.clone())),
            ("scopes".to_owned(), texts(&self.scopes)),
            ("groups".to_owned(), texts(&self.groups)),
        ])
    }
}

fn entity(
    uid: EntityUid,
    attributes: HashMap<String, RestrictedExpression>,
    parents: HashSet<EntityUid>,
) -> Result<Entity, PrincipalError> {
    Entity::new(uid, attributes, parents).map_err(|error| PrincipalError::Engine { reason: error.to_string() })
}
