//! Stores logins: one sealed note for each user at each upstream. Separate notes, without secrets, hold the scopes an upstream asked for,
//! the issuer a client belongs to, and which process is renewing a token.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use servanda_authority::sealing::SealingKey;
use servanda_contract::{Caller, Timestamp};
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

use crate::{challenge::Demand, login::Login, scope::OauthScopes};

/// The purpose of the sealing key of logins.
pub const LOGIN_PURPOSE: &str = "servanda/login/v1";
/// How long an upstream's demand is remembered.
const DEMAND_MS_MAX: u64 = 30 * 86_400_000;
/// How long one process may take to renew a token before another may try: longer than an exchange may take.
pub const REFRESH_MS_MAX: u64 = 40_000;
/// How long a claim is remembered: longer than any other process may still take those tokens for the latest.
const CLAIM_MS_MAX: u64 = 86_400_000;
/// How many processes may have given up renewing the same tokens within that time.
const CLAIMS_MAX: usize = 64;
/// How many notes are read at a time.
const PAGE: u32 = 256;
/// How many logins are listed.
const LOGINS_MAX: usize = 100_000;

/// Whose login, at which upstream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LoginKey {
    /// The upstream's id.
    pub upstream: String,
    /// The user's tenant.
    pub tenant: String,
    /// The user.
    pub principal: String,
}

/// The notes about logins.
#[derive(Debug, Clone)]
pub struct LoginStore {
    notebook: Arc<dyn Notebook>,
    key: Arc<SealingKey>,
}

/// Proof that this process, and no other, renews the tokens of a login.
#[derive(Debug)]
pub struct RefreshClaim(String);

#[derive(Serialize, Deserialize)]
struct RefreshClaimNote {
    mark: String,
    until: Timestamp,
}

/// Why a login cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LoginStoreError {
    /// The store is unreachable.
    #[error("the stored logins cannot be reached: {}", .0.reason())]
    Store(#[from] JournalError),
    /// It is sealed with another key, or damaged.
    #[error("the stored login cannot be opened with this gateway's key")]
    Sealed,
}

/// The stored form of an upstream's demand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDemand {
    /// The scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<OauthScopes>,
}

impl LoginKey {
    /// The key for a caller.
    pub fn for_caller(upstream: &str, caller: &Caller) -> Self {
        Self { upstream: upstream.to_owned(), tenant: caller.tenant.clone(), principal: caller.principal.clone() }
    }

    /// As JSON, so that two names cannot be written as one.
    fn key(&self) -> String {
        serde_json::json!([self.upstream, self.tenant, self.principal]).to_string()
    }

    fn read(key: &str) -> Option<Self> {
        let (upstream, tenant, principal) = serde_json::from_str(key).ok()?;
        Some(Self { upstream, tenant, principal })
    }
}

impl LoginStore {
    /// Uses that notebook, and seals with that key.
    pub fn new(notebook: Arc<dyn Notebook>, key: Arc<SealingKey>) -> Self {
        Self { notebook, key }
    }

    /// The login, if there is one.
    pub async fn login(&self, whose: &LoginKey, now: Timestamp) -> Result<Option<Login>, LoginStoreError> {
        let key = whose.key();
        let note = self.notebook.read(NoteKind::Login, &key, now).await?;
        note.map(|note| self.open(&key, &note.value)).transpose()
    }

    /// Stores a login in place of the former one.
    pub async fn save(&self, whose: &LoginKey, login: &Login) -> Result<(), LoginStoreError> {
        let key = whose.key();
        let written = login.to_json().ok_or(LoginStoreError::Sealed)?;
        let sealed = self.key.seal(&key, written.expose()).map_err(|_| LoginStoreError::Sealed)?;
        let value = serde_json::json!({"sealed": sealed}).to_string();
        Ok(self.notebook.write(Note { kind: NoteKind::Login, key, value, expires_at: None }).await?)
    }

    /// Removes a login and its demand.
    pub async fn forget(&self, whose: &LoginKey) -> Result<(), LoginStoreError> {
        self.notebook.erase(NoteKind::Login, &whose.key()).await?;
        Ok(self.notebook.erase(NoteKind::Demand, &whose.key()).await?)
    }

    /// Every login; a login that cannot be opened is listed without its value.
    pub async fn logins(&self, now: Timestamp) -> Result<Vec<(LoginKey, Option<Login>)>, LoginStoreError> {
        let mut found = Vec::new();
        let mut after = String::new();
        while found.len() < LOGINS_MAX {
            let page = self.notebook.list(NoteKind::Login, &after, PAGE, now).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.key);
            found.extend(page.into_iter().filter_map(|note| {
                let whose = LoginKey::read(&note.key)?;
                Some((whose, self.open(&note.key, &note.value).ok()))
            }));
        }
        Ok(found)
    }

    /// What the upstream asked of this user when it last rejected them.
    pub async fn demand(&self, whose: &LoginKey, now: Timestamp) -> Result<RecordedDemand, LoginStoreError> {
        let note = self.notebook.read(NoteKind::Demand, &whose.key(), now).await?;
        Ok(note.and_then(|note| serde_json::from_str(&note.value).ok()).unwrap_or_default())
    }

    /// Remembers what the upstream asks for.
    pub async fn save_demand(&self, whose: &LoginKey, demand: &Demand, now: Timestamp) -> Result<(), LoginStoreError> {
        let wanted = RecordedDemand { scopes: demand.scopes.clone() };
        let value = serde_json::to_string(&wanted).unwrap_or_default();
        let expires_at = Some(after(now, DEMAND_MS_MAX));
        Ok(self.notebook.write(Note { kind: NoteKind::Demand, key: whose.key(), value, expires_at }).await?)
    }

    /// Forgets the demand, because it is met.
    pub async fn clear_demand(&self, whose: &LoginKey) -> Result<(), LoginStoreError> {
        Ok(self.notebook.erase(NoteKind::Demand, &whose.key()).await?)
    }

    /// The issuer that a configured client belongs to, once the client was used there.
    pub async fn issuer(
        &self,
        upstream: &str,
        client: &str,
        now: Timestamp,
    ) -> Result<Option<String>, LoginStoreError> {
        let note = self.notebook.read(NoteKind::Issuer, &client_key(upstream, client), now).await?;
        Ok(note.and_then(|note| serde_json::from_str(&note.value).ok()))
    }

    /// Remembers that issuer. The first one stays.
    pub async fn bind_issuer(&self, upstream: &str, client: &str, issuer: &str) -> Result<(), LoginStoreError> {
        let value = serde_json::json!(issuer).to_string();
        let key = client_key(upstream, client);
        self.notebook.write_first(Note { kind: NoteKind::Issuer, key, value, expires_at: None }).await?;
        Ok(())
    }

    /// Forgets that issuer, so that the client may be used at another.
    pub async fn unbind_issuer(&self, upstream: &str, client: &str) -> Result<(), LoginStoreError> {
        Ok(self.notebook.erase(NoteKind::Issuer, &client_key(upstream, client)).await?)
    }

    /// Claims the renewal of that login's tokens; none if another process has claimed it. A refresh token is valid once: if two processes
    /// show the same one, the second looks like a thief.
    ///
    /// An expired claim is never removed. Another claim follows it under a key of its own, which the store gives to one process only.
    pub async fn claim(
        &self,
        whose: &LoginKey,
        login: &Login,
        mark: &str,
        now: Timestamp,
    ) -> Result<Option<RefreshClaim>, LoginStoreError> {
        // A new login counts its tokens from the beginning.
        let login = format!("{} {} {}", whose.key(), login.issued_at.unix_ms(), login.generation);
        let mut key = login.clone();
        for _ in 0..CLAIMS_MAX {
            let ours = RefreshClaimNote { mark: mark.to_owned(), until: after(now, REFRESH_MS_MAX) };
            let value = serde_json::to_string(&ours).unwrap_or_default();
            let expires_at = Some(after(now, CLAIM_MS_MAX));
            let note = Note { kind: NoteKind::Refreshing, key: key.clone(), value, expires_at };
            let first = self.notebook.write_first(note.clone()).await?;
            if first == note {
                return Ok(Some(RefreshClaim(key)));
            }
            let Some(theirs) =
                serde_json::from_str::<RefreshClaimNote>(&first.value).ok().filter(|claim| claim.until <= now)
            else {
                return Ok(None);
            };
            // The process that made this claim is gone.
            key = format!("{login} {}", theirs.mark);
        }
        Ok(None)
    }

    /// Releases a claim, so that another process may try.
    pub async fn release(&self, claim: RefreshClaim) -> Result<(), LoginStoreError> {
        Ok(self.notebook.erase(NoteKind::Refreshing, &claim.0).await?)
    }

    fn open(&self, key: &str, value: &str) -> Result<Login, LoginStoreError> {
        #[derive(Deserialize)]
        struct SealedLogin {
            sealed: String,
        }
        let kept: SealedLogin = serde_json::from_str(value).map_err(|_| LoginStoreError::Sealed)?;
        let opened = self.key.open(key, &kept.sealed).map_err(|_| LoginStoreError::Sealed)?;
        Login::from_json(&opened).ok_or(LoginStoreError::Sealed)
    }
}

fn client_key(upstream: &str, client: &str) -> String {
    serde_json::json!([upstream, client]).to_string()
}

fn after(now: Timestamp, ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(now.unix_ms().saturating_add(ms))
}

#[cfg(test)]
mod tests;
