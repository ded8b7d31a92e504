//! The agent credential: a user's rights, delegated to an agent. It is a chain of codes, so every holder can narrow it
//! offline and no holder can remove a narrowing:
//!
//! `sva1.<root>.<caveat>….<tag>`, where the first tag is a code over the root under our key and each next one a code
//! over the caveat under the tag before. Every part is base64url of JSON; only the last tag travels.
//!
//! Codes are computed over the parts as they arrived, never over their parsed form. Revocation is checked elsewhere, by
//! the lineage. Only a holder of the root key can verify a credential, so it is useful at this gateway only.

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

/// The prefix of an agent credential, with its version.
pub const PREFIX: &str = "sva1.";
/// Bytes of a credential, narrowings included: it travels in a header.
pub const CREDENTIAL_BYTES_MAX: usize = 12 << 10;
/// The most narrowings of one credential.
pub const CAVEATS_MAX: usize = 16;
/// The longest lifetime: a day.
pub const AGENT_LIFETIME_MS_MAX: u64 = 86_400_000;

const ID_BYTES: usize = 16;
const TAG_BYTES: usize = 32;
/// The shortest root key, in bytes.
pub const ROOT_KEY_BYTES_MIN: usize = 32;
const KEY_ID_BYTES_MAX: usize = 64;
const ROOT_DOMAIN: &[u8] = b"servanda/agent-credential/root-key/v1\0";

/// The root keys, by id. The current one signs new credentials; the others are still accepted.
#[derive(Debug, Clone)]
pub struct RootKeys {
    current: String,
    keys: BTreeMap<String, Secret>,
}

/// A new credential for an agent.
#[derive(Debug)]
pub struct AgentCredential {
    /// The bearer text.
    pub text: Secret,
    /// The id by which it is recorded and revoked.
    pub credential: CredentialId,
    /// What it allows.
    pub rights: Rights,
}

/// What is delegated, and to whom.
#[derive(Debug, Clone)]
pub struct Delegation {
    /// The agent.
    pub actor: Actor,
    /// The agent's own credential, if it showed one: revoking that revokes the delegation too.
    pub actor_lineage: Vec<CredentialId>,
    /// The budgets of the agent's own credential: what it spends for others is charged there too.
    pub actor_budgets: Vec<CredentialBudget>,
    /// What is removed from the user's rights.
    pub narrowing: Narrowing,
    /// The longest lifetime.
    pub lifetime_ms: u64,
}

/// The user whose rights are delegated without a credential of the user's: on the word of the operator, who holds the
/// root keys.
#[derive(Debug, Clone)]
pub struct DelegatingUser {
    /// The tenant.
    pub tenant: String,
    /// The user.
    pub principal: String,
    /// The user's groups.
    pub groups: BTreeSet<String>,
    /// The user's rights, with scopes by name.
    pub rights: Rights,
}

/// Why nothing was delegated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DelegationError {
    /// The credential may not be delegated any further.
    #[error(transparent)]
    Depth(#[from] DepthExhausted),
    /// The chain is longer than allowed.
    #[error("the chain of actors or of credentials is too long")]
    ChainTooLong,
    /// The lifetime is over, or would be at once.
    #[error("no lifetime is left")]
    Lifetime,
    /// Too many patterns and scopes for a header.
    #[error("the credential would have more than {CREDENTIAL_BYTES_MAX} bytes, or its lists too many members")]
    TooLarge,
    /// Only local mode has all scopes.
    #[error("name the scopes; only local mode has all of them")]
    AllScopes,
    /// The tenant, principal or a group is not a valid name.
    #[error(
        "tenant, principal and groups must be names without control characters, and a tenant must not have a slash"
    )]
    Name,
    /// The operating system provides no randomness.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Why a credential is not accepted, or cannot be narrowed. The error contains nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// The text does not have the form of a credential, or its parts are not strict JSON.
    #[error("not of the form of an agent credential")]
    Malformed,
    /// It is too long, or narrowed too often.
    #[error("the agent credential has more than {CREDENTIAL_BYTES_MAX} bytes or {CAVEATS_MAX} narrowings")]
    TooLong,
    /// Its root key is not one of ours, or no longer.
    #[error("the agent credential's root key is not known here")]
    UnknownKey,
    /// It was forged or changed.
    #[error("the agent credential was not issued here, or was changed")]
    Forged,
    /// It has expired.
    #[error("the agent credential has expired")]
    Expired,
    /// It was delegated more often than allowed.
    #[error("the agent credential was delegated more often than allowed")]
    Depth,
}

/// The root keys cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "each root key must have an id of 1 to {KEY_ID_BYTES_MAX} bytes and at least {ROOT_KEY_BYTES_MIN} bytes, and the current one \
     must be among them"
)]
pub struct BadRootKeys(());

impl RootKeys {
    /// Root keys; the current one signs new credentials.
    pub fn new(current: &str, keys: BTreeMap<String, Secret>) -> Result<Self, BadRootKeys> {
        let good = |(id, key): (&String, &Secret)| {
            (1..=KEY_ID_BYTES_MAX).contains(&id.len()) && key.expose().len() >= ROOT_KEY_BYTES_MIN
        };
        if !keys.contains_key(current) || !keys.iter().all(good) {
            return Err(BadRootKeys(()));
        }
        Ok(Self { current: current.to_owned(), keys })
    }

    /// Delegates a caller's rights, or a part of them. The [`AuthenticatedCaller`] proves that the caller has them.
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

    /// Grants an agent a user's rights, or a part of them, without a credential of the user's. Only the holder of the
    /// root keys can do this: the operator, at the machine.
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
        // A credential that cannot be read back must not be handed out.
        let made = self.verify(&text, now).map_err(|_| DelegationError::TooLarge)?;
        Ok(AgentCredential { text: Secret::from(text), credential, rights: made.rights().clone() })
    }

    /// Authenticates the holder, with the rights that remain after every narrowing.
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
        // In constant time, and before any caveat is parsed.
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

/// Narrows a credential offline: every holder can, and none can undo it. A caveat never adds a right that the
/// credential does not have.
pub fn attenuate(text: &str, caveat: &Caveat) -> Result<Secret, CapabilityError> {
    let parts = CredentialParts::parse(text)?;
    let caveat = URL_SAFE_NO_PAD.encode(serde_json::to_vec(caveat).map_err(|_| CapabilityError::Malformed)?);
    let tag = keyed(&parts.tag).chain_update(caveat.as_bytes()).finalize().into_bytes();
    let stem = text.rsplit_once('.').map_or(text, |(stem, _)| stem);
    let longer = format!("{stem}.{caveat}.{}", URL_SAFE_NO_PAD.encode(tag));
    CredentialParts::parse(&longer)?;
    Ok(Secret::from(longer))
}

/// The rights that a credential claims, for its holder to read. They are not verified and authenticate no caller.
pub fn unverified_rights(text: &str) -> Result<Rights, CapabilityError> {
    let parts = CredentialParts::parse(text)?;
    let root = CredentialRoot::read(parts.root)?;
    narrowed(root.rights, root.actors, &parts.caveats).map(|(rights, _)| rights)
}

/// The rights and actors after every narrowing.
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
                // A holder wrote this name, so it is checked like any other input.
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

/// As HMAC does, a key longer than the hash's block is hashed and a shorter one padded with zeros. Written out because
/// it then cannot fail: no code is ever computed under an empty key.
fn keyed(key: &[u8]) -> HmacSha256 {
    /// The block size of SHA-256.
    const BLOCK_BYTES: usize = 64;
    let hashed = (key.len() > BLOCK_BYTES).then(|| Sha256::digest(key));
    let mut block = Zeroizing::new([0; BLOCK_BYTES]);
    block.iter_mut().zip(hashed.as_deref().unwrap_or(key)).for_each(|(place, byte)| *place = *byte);
    HmacSha256::new(&(*block).into())
}

impl CredentialId {
    /// The id of an agent credential.
    fn for_agent(id: &str) -> Self {
        Self::new("agent", id)
    }
}

impl CredentialRoot {
    fn credential(&self) -> CredentialId {
        CredentialId::for_agent(&self.id)
    }

    /// The caller that remains after every narrowing. The codes were checked before.
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
        // A credential narrowed offline has no id of its own: all of them are charged to the one they were narrowed
        // from.
        Ok(found.with_ancestor_budgets(self.budgets))
    }
}

#[cfg(test)]
mod tests;
