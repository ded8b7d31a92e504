//! The agent credential: what a user's right becomes in an agent's hands. A chain of codes, so that whoever holds one can
//! narrow it offline and nobody can take a narrowing back out:
//!
//! `sva1.<root>.<caveat>….<tag>`, where the first tag is a code over the root under our key and each next one a code over
//! the caveat under the tag before. Every part is base64url of JSON; only the last tag travels.
//!
//! Codes are over the parts as they arrived, never over what they were read into. That a credential was revoked is asked by
//! its lineage elsewhere; only who has the root key can verify one, so this is a credential for us and nobody else.

mod document;

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use servanda_contract::{Timestamp, digest::hex};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::{
    Actor, AuthenticatedCaller, CredentialBudget, CredentialId, CredentialMethod, Secret,
    caller::{ACTORS_MAX, VerifiedCredential, checked_groups, checked_name, checked_tenant},
    rights::{DepthExhausted, Narrowing, Rights, Scopes},
    secret::NoRandomness,
};

use document::CredentialRoot;
pub use document::{Caveat, LINEAGE_MAX};

/// By which one is known, with its version.
pub const PREFIX: &str = "sva1.";
/// Bytes of a credential, narrowings included: it travels in a header.
pub const CREDENTIAL_BYTES_MAX: usize = 12 << 10;
/// Narrowings that are followed.
pub const CAVEATS_MAX: usize = 16;
/// How long one may be good, at most: a day.
pub const AGENT_LIFETIME_MS_MAX: u64 = 86_400_000;

const ID_BYTES: usize = 16;
const TAG_BYTES: usize = 32;
/// Bytes that a root key has at the least.
pub const ROOT_KEY_BYTES_MIN: usize = 32;
const KEY_ID_BYTES_MAX: usize = 64;
const ROOT_DOMAIN: &[u8] = b"servanda/agent-credential/root-key/v1\0";

/// The keys that credentials are rooted in, by id. New ones are made with the current; the others are still believed.
#[derive(Debug, Clone)]
pub struct RootKeys {
    current: String,
    keys: BTreeMap<String, Secret>,
}

/// What an agent gets.
#[derive(Debug)]
pub struct AgentCredential {
    /// The bearer text.
    pub text: Secret,
    /// What it is recorded and revoked by.
    pub credential: CredentialId,
    /// What it allows.
    pub rights: Rights,
}

/// What is to be delegated to whom.
#[derive(Debug, Clone)]
pub struct Delegation {
    /// The agent.
    pub actor: Actor,
    /// The agent's own credential, if it showed one: revoking that revokes the delegation too.
    pub actor_lineage: Vec<CredentialId>,
    /// What the agent's own credential may draw: what it draws for others is drawn there too.
    pub actor_budgets: Vec<CredentialBudget>,
    /// What is taken away.
    pub narrowing: Narrowing,
    /// How long it is good, at most.
    pub lifetime_ms: u64,
}

/// Whose right it is, where nobody shows a credential: by the word of whoever keeps the root keys, the operator.
#[derive(Debug, Clone)]
pub struct DelegatingUser {
    /// Whose tenant.
    pub tenant: String,
    /// The user.
    pub principal: String,
    /// The groups they are in.
    pub groups: BTreeSet<String>,
    /// What they may do: scopes by name.
    pub rights: Rights,
}

/// Why nothing was delegated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationError {
    /// Handed on often enough.
    #[error(transparent)]
    Depth(#[from] DepthExhausted),
    /// More hands than are followed.
    #[error("the chain of actors or of credentials is too long")]
    ChainTooLong,
    /// Over already, or would be at once.
    #[error("nothing is left of the lifetime")]
    Lifetime,
    /// Too many patterns and scopes for a header.
    #[error("the credential would have more than {CREDENTIAL_BYTES_MAX} bytes, or its lists too many members")]
    TooLarge,
    /// Only local mode has all scopes.
    #[error("the scopes have to be named; only local mode has all of them")]
    AllScopes,
    /// Tenant, principal or a group.
    #[error("tenant, principal and groups are names without control characters, and a tenant has no slash")]
    Name,
    /// The system's fault.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Why a credential is not taken, or cannot be narrowed. Nothing of it is in the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// Not of the form, or not strict JSON in the parts.
    #[error("not of the form of an agent credential")]
    Malformed,
    /// Longer than any, or narrowed more often than is followed.
    #[error("the agent credential has more than {CREDENTIAL_BYTES_MAX} bytes or {CAVEATS_MAX} narrowings")]
    TooLong,
    /// Its root key is not one of ours, or not any more.
    #[error("the agent credential is rooted in a key that is not known here")]
    UnknownKey,
    /// Forged or changed.
    #[error("the agent credential was not made here, or was changed")]
    Forged,
    /// Over.
    #[error("the agent credential has expired")]
    Expired,
    /// Handed on more often than it may be.
    #[error("the agent credential was handed on more often than it may be")]
    Depth,
}

/// Root keys that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "root keys have an id of 1 to {KEY_ID_BYTES_MAX} bytes and {ROOT_KEY_BYTES_MIN} bytes or more, and the current one is among them"
)]
pub struct BadRootKeys(());

impl RootKeys {
    /// Keys, of which the current one is used for what is new.
    pub fn new(current: &str, keys: BTreeMap<String, Secret>) -> Result<Self, BadRootKeys> {
        let good = |(id, key): (&String, &Secret)| {
            (1..=KEY_ID_BYTES_MAX).contains(&id.len()) && key.expose().len() >= ROOT_KEY_BYTES_MIN
        };
        if !keys.contains_key(current) || !keys.iter().all(good) {
            return Err(BadRootKeys(()));
        }
        Ok(Self { current: current.to_owned(), keys })
    }

    /// Hands on what somebody has, or less of it. That it is somebody's was checked: an [`Authenticated`] says so.
    pub fn delegate(
        &self,
        subject: &AuthenticatedCaller,
        delegation: Delegation,
        now: Timestamp,
    ) -> Result<AgentCredential, DelegationError> {
        let Delegation { actor, actor_lineage, actor_budgets, narrowing, lifetime_ms } = delegation;
        let rights = subject.rights().delegated(&narrowing)?;
        let mut actors = vec![actor];
        actors.extend_from_slice(subject.actors());
        let mut lineage = subject.lineage().to_vec();
        lineage.extend(actor_lineage);
        let budgets = subject.budgets().iter().cloned().chain(actor_budgets).collect();
        let root = CredentialRoot {
            id: hex(Secret::random(ID_BYTES)?.expose()),
            key_id: self.current.clone(),
            tenant: subject.tenant().to_owned(),
            principal: subject.principal().to_owned(),
            groups: subject.groups().clone(),
            actors,
            lineage,
            issued_at: now,
            rights,
            budgets,
        };
        self.issue(root, lifetime_ms, now)
    }

    /// Gives an agent what a user may do, or less of it, without a credential of the user's. Whoever has the root keys may: the
    /// operator, at the machine.
    pub fn grant(
        &self,
        user: &DelegatingUser,
        delegation: Delegation,
        now: Timestamp,
    ) -> Result<AgentCredential, DelegationError> {
        let Delegation { actor, actor_lineage, actor_budgets, narrowing, lifetime_ms } = delegation;
        let rights = user.rights.delegated(&narrowing)?;
        if rights.scopes == Scopes::All {
            return Err(DelegationError::AllScopes);
        }
        let root = CredentialRoot {
            id: hex(Secret::random(ID_BYTES)?.expose()),
            key_id: self.current.clone(),
            tenant: checked_tenant(&user.tenant).map_err(|_| DelegationError::Name)?,
            principal: checked_name(&user.principal).map_err(|_| DelegationError::Name)?,
            groups: checked_groups(user.groups.iter().map(String::as_str)).map_err(|_| DelegationError::Name)?,
            actors: vec![actor],
            lineage: actor_lineage,
            budgets: actor_budgets,
            issued_at: now,
            rights,
        };
        self.issue(root, lifetime_ms, now)
    }

    fn issue(
        &self,
        mut root: CredentialRoot,
        lifetime_ms: u64,
        now: Timestamp,
    ) -> Result<AgentCredential, DelegationError> {
        let lifetime_ms = lifetime_ms.min(AGENT_LIFETIME_MS_MAX);
        let latest = Timestamp::from_unix_ms(now.unix_ms().saturating_add(lifetime_ms));
        root.rights.expires_at = root.rights.expires_at.min(latest);
        if root.rights.expires_at <= now {
            return Err(DelegationError::Lifetime);
        }
        if root.actors.len() > ACTORS_MAX || root.lineage.len() > LINEAGE_MAX {
            return Err(DelegationError::ChainTooLong);
        }
        let credential = root.credential();
        let text = self.seal(&root).ok_or(DelegationError::TooLarge)?;
        // What cannot be read back must not be handed out.
        let made = self.verify(&text, now).map_err(|_| DelegationError::TooLarge)?;
        Ok(AgentCredential { text: Secret::from(text), credential, rights: made.rights().clone() })
    }

    /// Lets the holder in, with what is left after every narrowing.
    pub fn verify(&self, text: &str, now: Timestamp) -> Result<AuthenticatedCaller, CapabilityError> {
        let parts = CredentialParts::parse(text)?;
        let root = CredentialRoot::read(parts.root)?;
        let mut tag = self.first_tag(&root.key_id, parts.root).ok_or(CapabilityError::UnknownKey)?;
        let Some((last, before)) = parts.caveats.split_last() else {
            tag.verify_slice(&parts.tag).map_err(|_| CapabilityError::Forged)?;
            return root.authenticate(&[], now);
        };
        for caveat in before {
            tag = next_tag(tag, caveat);
        }
        // In constant time, and before any caveat is looked into.
        next_tag(tag, last).verify_slice(&parts.tag).map_err(|_| CapabilityError::Forged)?;
        root.authenticate(&parts.caveats, now)
    }

    fn seal(&self, root: &CredentialRoot) -> Option<String> {
        let root = URL_SAFE_NO_PAD.encode(serde_json::to_vec(root).ok()?);
        let tag = self.first_tag(&self.current, &root)?.finalize().into_bytes();
        Some(format!("{PREFIX}{root}.{}", URL_SAFE_NO_PAD.encode(tag)))
    }

    fn first_tag(&self, key_id: &str, root: &str) -> Option<HmacSha256> {
        let key = keyed(self.keys.get(key_id)?.expose()).chain_update(ROOT_DOMAIN).chain_update(key_id.as_bytes());
        Some(keyed(&key.finalize().into_bytes()).chain_update(PREFIX.as_bytes()).chain_update(root.as_bytes()))
    }
}

/// Narrows a credential, offline: whoever holds it can, and nobody can undo it. What the caveat allows beyond what the
/// credential does is of no effect.
pub fn attenuate(text: &str, caveat: &Caveat) -> Result<Secret, CapabilityError> {
    let parts = CredentialParts::parse(text)?;
    let caveat = URL_SAFE_NO_PAD.encode(serde_json::to_vec(caveat).map_err(|_| CapabilityError::Malformed)?);
    let tag = keyed(&parts.tag).chain_update(caveat.as_bytes()).finalize().into_bytes();
    let stem = text.rsplit_once('.').map_or(text, |(stem, _)| stem);
    let longer = format!("{stem}.{caveat}.{}", URL_SAFE_NO_PAD.encode(tag));
    CredentialParts::parse(&longer)?;
    Ok(Secret::from(longer))
}

/// What a credential says that it allows, for its holder to look at. It was not checked, and lets nobody in.
pub fn unverified_rights(text: &str) -> Result<Rights, CapabilityError> {
    let parts = CredentialParts::parse(text)?;
    let root = CredentialRoot::read(parts.root)?;
    narrowed(root.rights, root.actors, &parts.caveats).map(|(rights, _)| rights)
}

/// Rights and who acts, after every narrowing.
fn narrowed(
    mut rights: Rights,
    mut actors: Vec<Actor>,
    caveats: &[&str],
) -> Result<(Rights, Vec<Actor>), CapabilityError> {
    for caveat in caveats {
        let Caveat { actor, narrowing } = Caveat::read(caveat)?;
        rights = match actor {
            None => rights.narrowed_by(&narrowing.as_rights()),
            Some(name) => {
                // Whoever wrote it is not us: a name is checked like any other that comes from outside.
                let actor = Actor::named(&name).map_err(|_| CapabilityError::Malformed)?;
                actors.insert(0, actor);
                rights.delegated(&narrowing).map_err(|_| CapabilityError::Depth)?
            }
        };
    }
    if actors.len() > ACTORS_MAX { Err(CapabilityError::Depth) } else { Ok((rights, actors)) }
}

type HmacSha256 = Hmac<Sha256>;

/// The parts of a credential as they arrived.
struct CredentialParts<'a> {
    root: &'a str,
    caveats: Vec<&'a str>,
    tag: Vec<u8>,
}

impl<'a> CredentialParts<'a> {
    fn parse(text: &'a str) -> Result<Self, CapabilityError> {
        if text.len() > CREDENTIAL_BYTES_MAX {
            return Err(CapabilityError::TooLong);
        }
        let rest = text.strip_prefix(PREFIX).ok_or(CapabilityError::Malformed)?;
        let (rest, tag) = rest.rsplit_once('.').ok_or(CapabilityError::Malformed)?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok().filter(|tag| tag.len() == TAG_BYTES);
        let tag = tag.ok_or(CapabilityError::Malformed)?;
        let mut parts = rest.split('.');
        let root = parts.next().ok_or(CapabilityError::Malformed)?;
        let caveats: Vec<&str> = parts.collect();
        if caveats.len() > CAVEATS_MAX {
            return Err(CapabilityError::TooLong);
        }
        Ok(Self { root, caveats, tag })
    }
}

fn next_tag(tag: HmacSha256, caveat: &str) -> HmacSha256 {
    keyed(&tag.finalize().into_bytes()).chain_update(caveat.as_bytes())
}

/// A key longer than the hash's block is hashed, a shorter one padded with zeros: that is what HMAC does with one. Written out
/// because it then cannot fail, and a code under a key of nothing is not to be thought of.
fn keyed(key: &[u8]) -> HmacSha256 {
    /// SHA-256's.
    const BLOCK_BYTES: usize = 64;
    let hashed = (key.len() > BLOCK_BYTES).then(|| Sha256::digest(key));
    let mut block = Zeroizing::new([0; BLOCK_BYTES]);
    block.iter_mut().zip(hashed.as_deref().unwrap_or(key)).for_each(|(place, byte)| *place = *byte);
    HmacSha256::new(&(*block).into())
}

impl CredentialId {
    /// Of an agent credential's own id.
    fn for_agent(id: &str) -> Self {
        Self::new("agent", id)
    }
}

impl CredentialRoot {
    fn credential(&self) -> CredentialId {
        CredentialId::for_agent(&self.id)
    }

    /// What is left after every narrowing. The codes were checked.
    fn authenticate(self, caveats: &[&str], now: Timestamp) -> Result<AuthenticatedCaller, CapabilityError> {
        let mut lineage = vec![self.credential()];
        lineage.extend(self.lineage);
        let (rights, actors) = narrowed(self.rights, self.actors, caveats)?;
        if now >= rights.expires_at {
            return Err(CapabilityError::Expired);
        }
        let (tenant, principal, groups) = (self.tenant, self.principal, self.groups);
        let method = CredentialMethod::AgentCredential;
        let found = AuthenticatedCaller::from(VerifiedCredential {
            tenant,
            principal,
            groups,
            actors,
            lineage,
            rights,
            method,
        });
        // Whoever narrows offline has no id of their own: what all of them draw is drawn under the one they narrowed.
        Ok(found.with_ancestor_budgets(self.budgets))
    }
}

#[cfg(test)]
mod tests;
