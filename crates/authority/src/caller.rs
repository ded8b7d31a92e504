//! Who is calling, once it is known: the user, the agents between the user and us, and what they may.
//!
//! An [`Authenticated`] is evidence. It is made only by this crate's own checks of a credential, never from a name
//! somebody sent; and before a call is dispatched it is checked again, because rights can be taken back meanwhile.

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

/// Agents between the user and us, at most.
pub const ACTORS_MAX: usize = 8;
/// Bytes of a name: of a tenant, a principal or an actor.
pub const NAME_BYTES_MAX: usize = 256;
/// Groups one user may be in, as far as we are told.
pub const GROUPS_MAX: usize = 256;

/// Somebody whose credential was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticatedCaller {
    tenant: String,
    principal: String,
    groups: BTreeSet<String>,
    actors: Vec<Actor>,
    lineage: Vec<CredentialId>,
    rights: Rights,
    /// The credential's own first, then those of what it comes from.
    budgets: Vec<CredentialBudget>,
    method: CredentialMethod,
}

/// How much may be drawn under one credential, and under everything that comes from it, together. Where a credential is handed
/// on, what the next one draws is drawn here too: to hand it on often is no way to have more of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialBudget {
    /// Under which.
    pub credential: CredentialId,
    /// How much; what is absent is not limited by it.
    pub limits: BTreeMap<RightsDimension, u64>,
}

/// One who acts for somebody else. Whose word that is makes a difference: a holder who hands a credential on may call the
/// next one whatever they like, so a rule about an agent by name goes by those that are proven, or by the whole chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    name: String,
    proven: bool,
}

/// What a credential is revoked and recorded by. It is never the credential, nor anything it could be made from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CredentialId(String);

/// How a credential stands, by whoever keeps track of revocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevocationStatus {
    /// Not revoked.
    Good,
    /// Revoked.
    Revoked,
    /// Nobody can say at present.
    Unknown,
}

/// An [`Authenticated`] that is still good at the moment of dispatch.
#[derive(Debug, Clone, Copy)]
pub struct RecheckedCaller<'a>(&'a AuthenticatedCaller);

/// Why a credential that was good is not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecheckError {
    /// Its time is over.
    #[error("the credential expired at {0}")]
    Expired(Timestamp),
    /// It was revoked, or one that it comes from.
    #[error("the credential `{0}` was revoked")]
    Revoked(CredentialId),
    /// It could not be found out; that is a refusal too.
    #[error("whether the credential `{0}` was revoked cannot be found out at present")]
    Unknown(CredentialId),
}

/// Text that is no name of a tenant, principal or actor. It does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name is 1 to {NAME_BYTES_MAX} bytes without control characters, and a tenant's has no slash")]
pub struct InvalidCallerName(());

/// What a check found out; only checks can make an [`Authenticated`] of it.
pub(crate) struct VerifiedCredential {
    pub(crate) tenant: String,
    pub(crate) principal: String,
    pub(crate) groups: BTreeSet<String>,
    /// The one who acts now first.
    pub(crate) actors: Vec<Actor>,
    /// The credential itself first, then what it comes from.
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

    /// As records have it: the user, whoever acts for them, and by which credential.
    pub fn caller(&self) -> Caller {
        let acting = |actor: &Actor| CallerActor { name: actor.name.clone(), proven: actor.proven };
        let credential = match self.method {
            CredentialMethod::Local => None,
            CredentialMethod::Operator => Some(format!("operator:{}", self.credential())),
            CredentialMethod::ApiKey | CredentialMethod::AccessToken { .. } | CredentialMethod::AgentCredential => {
                Some(self.credential().to_string())
            }
        };
        Caller {
            actors: self.actors.iter().map(acting).collect(),
            credential,
            ..Caller::named(&self.tenant, &self.principal)
        }
    }

    /// The tenant all of it belongs to.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The user: the root of trust, never an agent that acts for one.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The groups that the user is in, by the word of whoever vouches for the user.
    pub fn groups(&self) -> &BTreeSet<String> {
        &self.groups
    }

    /// Who acts for the user: the one who acts now first (RFC 8693 `act`, outermost first).
    pub fn actors(&self) -> &[Actor] {
        &self.actors
    }

    /// The credential.
    pub fn credential(&self) -> &CredentialId {
        // Upholds: `from` never leaves the lineage empty.
        self.lineage.first().unwrap_or(const { &CredentialId(String::new()) })
    }

    /// The credential, and those it comes from: revoking any of them revokes it.
    pub fn lineage(&self) -> &[CredentialId] {
        &self.lineage
    }

    /// What it lets its holder do.
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// What is counted against whom: the credential's own budget first, then those of the credentials it comes from. One that
    /// has the same as what it comes from has none of its own.
    pub fn budgets(&self) -> &[CredentialBudget] {
        &self.budgets
    }

    /// The same under the budgets of what it comes from, the nearest first.
    pub(crate) fn with_ancestor_budgets(mut self, ancestors: Vec<CredentialBudget>) -> Self {
        let nearest = ancestors.first().map(|ancestor| &ancestor.limits);
        self.budgets.retain(|own| Some(&own.limits) != nearest);
        self.budgets.extend(ancestors);
        self
    }

    /// How it was found out.
    pub fn method(&self) -> &CredentialMethod {
        &self.method
    }

    /// Looks again, at the moment of dispatch: at the time, and at how each credential of the lineage stands.
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
        // The top is the identity of narrowing, but for numbers that were written larger than there are.
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
    /// Who it is.
    pub fn authenticated(self) -> &'a AuthenticatedCaller {
        self.0
    }
}

impl Actor {
    /// An actor of that name, by the word of whoever hands the credential on.
    pub fn named(name: &str) -> Result<Self, InvalidCallerName> {
        checked_name(name).map(|name| Self { name, proven: false })
    }

    /// One that showed a credential of its own, or that an issuer vouches for.
    pub(crate) fn proven(name: &str) -> Result<Self, InvalidCallerName> {
        checked_name(name).map(|name| Self { name, proven: true })
    }

    /// Whether it showed a credential of its own, or an issuer vouches for it.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// What it is called.
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

    /// What somebody names to have it revoked. None if no credential of ours is known by anything like it.
    pub fn read(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        let chars = match kind {
            "key" => 20,
            "agent" | "token" => 32,
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

/// The name of a tenant, if it is one. Users are named `tenant/user` in policies, so that it has no slash.
pub fn checked_tenant(name: &str) -> Result<String, InvalidCallerName> {
    if name.contains('/') { Err(InvalidCallerName(())) } else { checked_name(name) }
}

/// The name, if it is one.
pub fn checked_name(name: &str) -> Result<String, InvalidCallerName> {
    let good = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if good { Ok(name.to_owned()) } else { Err(InvalidCallerName(())) }
}

/// The groups, if each is a name and there are not too many.
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
