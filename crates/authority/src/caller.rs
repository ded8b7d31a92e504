//! The authenticated caller: the user, the agents between the user and us, and their rights.
//!
//! An [`AuthenticatedCaller`] is evidence. Only this crate's own checks of a credential create one, never a name that a
//! caller sent. It is checked again before a call is dispatched, because rights can be revoked meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use servanda_contract::{Caller, CallerActor, Timestamp};

use crate::{
    CredentialMethod,
    rights::{Rights, RightsDimension},
};

/// The most agents between the user and us.
pub const ACTORS_MAX: usize = 8;
/// Bytes of the name of a tenant, a principal or an actor.
pub const NAME_BYTES_MAX: usize = 256;
/// The most groups of one user.
pub const GROUPS_MAX: usize = 256;

/// A caller whose credential was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedCaller {
    tenant: String,
    principal: String,
    groups: BTreeSet<String>,
    actors: Vec<Actor>,
    lineage: Vec<CredentialId>,
    rights: Rights,
    /// The credential's own budget first, then those of the credentials that it derives from.
    budgets: Vec<CredentialBudget>,
    method: CredentialMethod,
}

/// How much may be spent under one credential and everything that derives from it, together. What a delegated
/// credential spends is also spent here: delegating often does not multiply the budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialBudget {
    /// The credential.
    pub credential: CredentialId,
    /// The limits; an absent dimension is not limited by it.
    pub limits: BTreeMap<RightsDimension, u64>,
}

/// An agent that acts for a user. It matters who says so: the holder of a credential may give the next agent any name,
/// so a rule about an agent by name must use proven names, or the whole chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    name: String,
    proven: bool,
}

/// The id by which a credential is revoked and recorded. It is never the credential, nor anything it could be made
/// from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialId(String);

/// The revocation status of a credential, as the store of revocations reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationStatus {
    /// Not revoked.
    Good,
    /// Revoked.
    Revoked,
    /// The store cannot say at present.
    Unknown,
}

/// An [`AuthenticatedCaller`] that is still valid at the moment of dispatch.
#[derive(Debug, Clone, Copy)]
pub struct RecheckedCaller<'a>(&'a AuthenticatedCaller);

/// Why a credential that was valid is not valid any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecheckError {
    /// It has expired.
    #[error("the credential expired at {0}")]
    Expired(Timestamp),
    /// It was revoked, or one that it derives from.
    #[error("the credential `{0}` was revoked")]
    Revoked(CredentialId),
    /// Its revocation cannot be checked; that is a refusal too.
    #[error("the revocation of the credential `{0}` cannot be checked at present")]
    Unknown(CredentialId),
}

/// The text is not a valid name of a tenant, principal or actor. The error does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name must be 1 to {NAME_BYTES_MAX} bytes without control characters, and a tenant's name must not have a slash"
)]
pub struct InvalidCallerName(());

/// The result of a check. Only checks can turn it into an [`AuthenticatedCaller`].
pub(crate) struct VerifiedCredential {
    pub(crate) tenant: String,
    pub(crate) principal: String,
    pub(crate) groups: BTreeSet<String>,
    /// The acting agent first.
    pub(crate) actors: Vec<Actor>,
    /// The credential itself first, then those it derives from.
    pub(crate) lineage: Vec<CredentialId>,
    pub(crate) rights: Rights,
    pub(crate) method: CredentialMethod,
}

impl AuthenticatedCaller {
    /// The one principal of local mode. The door has made sure that the peer is on this machine.
    pub fn local() -> Self {
        Self::from(VerifiedCredential {
            tenant: "local".to_owned(),
            principal: "local".to_owned(),
            groups: BTreeSet::new(),
            actors: Vec::new(),
            lineage: vec![CredentialId::local()],
            rights: Rights::unlimited(),
            method: CredentialMethod::Local,
        })
    }

    /// The caller in the form of records: the user, the agents that act for the user, and the credential.
    pub fn caller(&self) -> Caller {
        let acting = |actor: &Actor| CallerActor { name: actor.name.clone(), proven: actor.proven };
        Caller {
            actors: self.actors.iter().map(acting).collect(),
            credential: self.recorded_credential(),
            ..Caller::named(&self.tenant, &self.principal)
        }
    }

    /// Whether it is the same user as that caller, through the same chain of agents, as [`Caller::is_same_party`] says it. Every request of a
    /// session asks this, so no caller is made for it.
    pub fn is_same_party(&self, caller: &Caller) -> bool {
        let is_same = |(own, other): (&Actor, &CallerActor)| own.name == other.name && own.proven == other.proven;
        self.tenant == caller.tenant
            && self.principal == caller.principal
            && self.actors.len() == caller.actors.len()
            && self.actors.iter().zip(&caller.actors).all(is_same)
    }

    /// The credential's id in the form of records; none in local mode.
    pub fn recorded_credential(&self) -> Option<String> {
        match self.method {
            CredentialMethod::Local => None,
            CredentialMethod::Operator => Some(format!("operator:{}", self.credential())),
            CredentialMethod::ApiKey | CredentialMethod::AccessToken { .. } | CredentialMethod::AgentCredential => {
                Some(self.credential().to_string())
            }
        }
    }

    /// The tenant that everything belongs to.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The user: the root of trust, never an agent that acts for one.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The user's groups, as the issuer or the key says.
    pub fn groups(&self) -> &BTreeSet<String> {
        &self.groups
    }

    /// The agents that act for the user: the acting one first (RFC 8693 `act`, outermost first).
    pub fn actors(&self) -> &[Actor] {
        &self.actors
    }

    /// The credential.
    pub fn credential(&self) -> &CredentialId {
        // Upholds: `from` never leaves the lineage empty.
        self.lineage.first().unwrap_or(const { &CredentialId(String::new()) })
    }

    /// The credential, and those it derives from: revoking any of them revokes it.
    pub fn lineage(&self) -> &[CredentialId] {
        &self.lineage
    }

    /// The rights of its holder.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// The budgets that a call is charged to: the credential's own first, then those of the credentials that it derives
    /// from. A credential with the same limits as its parent has no budget of its own.
    pub fn budgets(&self) -> &[CredentialBudget] {
        &self.budgets
    }

    /// The same caller, also charged to the budgets of its ancestors, the nearest first.
    pub(crate) fn with_ancestor_budgets(mut self, ancestors: Vec<CredentialBudget>) -> Self {
        let nearest = ancestors.first().map(|ancestor| &ancestor.limits);
        self.budgets.retain(|own| Some(&own.limits) != nearest);
        self.budgets.extend(ancestors);
        self
    }

    /// How the caller was authenticated.
    pub fn method(&self) -> &CredentialMethod {
        &self.method
    }

    /// Checks again at the moment of dispatch: the time, and the revocation of each credential in the lineage.
    pub fn recheck(
        &self,
        now: Timestamp,
        standing_of: impl Fn(&CredentialId) -> RevocationStatus,
    ) -> Result<RecheckedCaller<'_>, RecheckError> {
        if now >= self.rights.expires_at {
            return Err(RecheckError::Expired(self.rights.expires_at));
        }
        for credential in &self.lineage {
            match standing_of(credential) {
                RevocationStatus::Good => {}
                RevocationStatus::Revoked => return Err(RecheckError::Revoked(credential.clone())),
                RevocationStatus::Unknown => return Err(RecheckError::Unknown(credential.clone())),
            }
        }
        Ok(RecheckedCaller(self))
    }
}

impl From<VerifiedCredential> for AuthenticatedCaller {
    fn from(finding: VerifiedCredential) -> Self {
        let VerifiedCredential { tenant, principal, groups, actors, mut lineage, rights, method } = finding;
        if lineage.is_empty() {
            lineage.push(CredentialId(String::new()));
        }
        // Narrowing by the top changes nothing, except for numbers that are larger than allowed.
        let rights = rights.narrowed_by(&Rights::unlimited());
        let own = |credential: &CredentialId| CredentialBudget {
            credential: credential.clone(),
            limits: rights.budget.clone(),
        };
        let budgets = lineage.first().filter(|_| !rights.budget.is_empty()).map(own).into_iter().collect();
        Self { tenant, principal, groups, actors, lineage, rights, budgets, method }
    }
}

impl<'a> RecheckedCaller<'a> {
    /// The caller.
    pub fn authenticated(self) -> &'a AuthenticatedCaller {
        self.0
    }
}

impl Actor {
    /// An agent with a name that only the delegating holder gave it.
    pub fn named(name: &str) -> Result<Self, InvalidCallerName> {
        checked_name(name).map(|name| Self { name, proven: false })
    }

    /// An agent that showed a credential of its own, or that an issuer vouches for.
    pub(crate) fn proven(name: &str) -> Result<Self, InvalidCallerName> {
        checked_name(name).map(|name| Self { name, proven: true })
    }

    /// Whether it showed a credential of its own, or an issuer vouches for it.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl CredentialId {
    pub(crate) fn local() -> Self {
        Self("local".to_owned())
    }

    pub(crate) fn new(kind: &str, id: &str) -> Self {
        Self(format!("{kind}:{id}"))
    }

    /// Parses the id that an operator names to revoke a credential. `None` if it has the form of no credential id.
    pub fn read(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        let chars = match kind {
            "key" => 20,
            "agent" | "token" | "passkey" | "oidc" => 32,
            _ => return None,
        };
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (id.len() == chars && id.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// Whether it is an API key.
    pub fn is_key(&self) -> bool {
        self.0.starts_with("key:")
    }

    /// The text, for records and for `revoke`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks the name of a tenant. Policies name users `tenant/user`, so a tenant has no slash.
pub fn checked_tenant(name: &str) -> Result<String, InvalidCallerName> {
    if name.contains('/') { Err(InvalidCallerName(())) } else { checked_name(name) }
}

/// Checks a name.
pub fn checked_name(name: &str) -> Result<String, InvalidCallerName> {
    let good = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if good { Ok(name.to_owned()) } else { Err(InvalidCallerName(())) }
}

/// Checks that each group is a name and that there are not too many.
pub(crate) fn checked_groups<'a>(
    groups: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeSet<String>, InvalidCallerName> {
    let groups = groups.into_iter().take(GROUPS_MAX + 1).map(checked_name).collect::<Result<BTreeSet<_>, _>>()?;
    if groups.len() > GROUPS_MAX { Err(InvalidCallerName(())) } else { Ok(groups) }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
