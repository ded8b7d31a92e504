//! Which passkeys count: those that were not revoked, and whose key, under which they were registered, still signs its person in. Revoking a
//! person's key ends the passkeys that were registered under it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{
    AuthenticatedCaller, CredentialId, Secret,
    passkey::{RegisteredPasskey, StoredPasskey, VerifiedPasskeyAssertion, passkey_handle},
    secret::NoRandomness,
};
use servanda_console::{AuthenticatedPerson, PasskeyAdmission, PersonPasskeys, SignInMethod, SignInUnavailable};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, PortFuture};

use crate::{
    authenticator::{AuthnError, AuthnMode, CredentialAuthenticator},
    keys,
    passkeys::{self, PASSKEYS_PER_PERSON_MAX},
    revocation,
};

/// The longest session that a passkey opens where there are no keys; the session's own limit is shorter.
const SESSION_MS_MAX: u64 = 24 * 3_600_000;
/// The purpose of the secret from which challenges are made.
const CHALLENGE_PURPOSE: &str = "passkey-challenges";
const CHALLENGE_SECRET_BYTES: usize = 32;

impl PersonPasskeys for CredentialAuthenticator {
    fn passkeys_of<'a>(
        &'a self,
        tenant: &'a str,
        principal: &'a str,
    ) -> PortFuture<'a, Result<Vec<StoredPasskey>, SignInUnavailable>> {
        Box::pin(async move {
            let handle = passkey_handle(tenant, principal);
            self.counting(&handle).await.map(|(counting, _)| counting).map_err(|error| away(&error))
        })
    }

    fn find_passkey<'a>(
        &'a self,
        handle: &'a str,
        credential_id: &'a str,
    ) -> PortFuture<'a, Result<Option<StoredPasskey>, SignInUnavailable>> {
        Box::pin(async move { self.found(handle, credential_id).await.map_err(|error| away(&error)) })
    }

    fn person_of_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
    ) -> PortFuture<'a, Result<Option<AuthenticatedPerson>, SignInUnavailable>> {
        Box::pin(async move { self.person_behind(passkey).await.map_err(|error| away(&error)) })
    }

    fn register_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
    ) -> PortFuture<'a, Result<PasskeyAdmission, SignInUnavailable>> {
        Box::pin(async move { self.admit_passkey(passkey).await.map_err(|error| away(&error)) })
    }

    fn remove_passkey<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
        by: &'a str,
    ) -> PortFuture<'a, Result<(), SignInUnavailable>> {
        Box::pin(async move {
            let revoked = passkeys::revoke(self.notebook.as_ref(), passkey, by, self.clock.now()).await;
            revoked.map(|_| ()).map_err(|error| away(&error.into()))
        })
    }

    fn note_passkey_count<'a>(
        &'a self,
        passkey: &'a StoredPasskey,
        verified: &'a VerifiedPasskeyAssertion,
    ) -> PortFuture<'a, Result<bool, SignInUnavailable>> {
        Box::pin(async move {
            let (count, now) = (verified.passkey().sign_count, self.clock.now());
            let noted = passkeys::note_count(self.notebook.as_ref(), passkey, count, now).await;
            noted.map_err(|error| away(&error.into()))
        })
    }

    fn is_first_answer<'a>(
        &'a self,
        challenge: &'a str,
        expires_at: Timestamp,
    ) -> PortFuture<'a, Result<bool, SignInUnavailable>> {
        Box::pin(async move {
            let first = passkeys::is_first_answer(self.notebook.as_ref(), challenge, expires_at).await;
            first.map_err(|error| away(&error.into()))
        })
    }

    fn challenge_secret(&self) -> PortFuture<'_, Result<Secret, SignInUnavailable>> {
        Box::pin(async move { self.shared_secret().await.map_err(|error| away(&error.into())) })
    }
}

impl CredentialAuthenticator {
    /// Whether a passkey counts that was registered under a key.
    pub(crate) async fn counts(&self, passkey: &CredentialId, key: Option<&CredentialId>) -> Result<bool, AuthnError> {
        let is_key_good = match (&*self.mode(), key) {
            (AuthnMode::Local, None) => true,
            (AuthnMode::Required(mode), Some(key)) => self.is_key_valid(mode, key.as_str()).await?,
            // The operator changed how people sign in.
            (AuthnMode::Local, Some(_)) | (AuthnMode::Required(_), None) => false,
        };
        Ok(is_key_good && revocation::find(self.notebook.as_ref(), passkey, self.clock.now()).await?.is_none())
    }

    /// The passkeys of a person that count, and those that do not any more.
    async fn counting(&self, handle: &str) -> Result<(Vec<StoredPasskey>, Vec<StoredPasskey>), AuthnError> {
        let (mut counting, mut ended) = (Vec::new(), Vec::new());
        for passkey in passkeys::of_person(self.notebook.as_ref(), handle, self.clock.now()).await? {
            let counts = self.counts(&passkey.credential(), passkey.key.as_ref()).await?;
            if counts { counting.push(passkey) } else { ended.push(passkey) }
        }
        Ok((counting, ended))
    }

    async fn found(&self, handle: &str, credential_id: &str) -> Result<Option<StoredPasskey>, AuthnError> {
        let (notebook, now) = (self.notebook.as_ref(), self.clock.now());
        let Some(stored) = passkeys::find(notebook, handle, credential_id, now).await? else { return Ok(None) };
        if !self.counts(&stored.credential(), stored.key.as_ref()).await? {
            return Ok(None);
        }
        let sign_count = passkeys::sign_count(notebook, &stored, now).await?;
        let passkey = RegisteredPasskey { sign_count, ..stored.passkey.clone() };
        Ok(Some(StoredPasskey { passkey, ..stored }))
    }

    async fn person_behind(&self, passkey: &StoredPasskey) -> Result<Option<AuthenticatedPerson>, AuthnError> {
        if !self.counts(&passkey.credential(), passkey.key.as_ref()).await? {
            return Ok(None);
        }
        let now = self.clock.now();
        let method = SignInMethod::Passkey { passkey: passkey.credential(), key: passkey.key.clone() };
        let Some(key) = &passkey.key else {
            let caller = AuthenticatedCaller::local();
            return Ok(Some(AuthenticatedPerson {
                tenant: caller.tenant().to_owned(),
                principal: caller.principal().to_owned(),
                groups: caller.groups().clone(),
                method,
                proved_at: now,
                expires_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(SESSION_MS_MAX)),
            }));
        };
        let id = key.as_str().strip_prefix("key:").unwrap_or_default();
        let Some(key) = keys::find(self.notebook.as_ref(), id, now).await? else { return Ok(None) };
        // A key has one person for ever; a passkey of another one is not theirs.
        let is_theirs = key.tenant == passkey.tenant && key.principal == passkey.principal;
        Ok(is_theirs.then_some(AuthenticatedPerson {
            tenant: key.tenant,
            principal: key.principal,
            groups: key.groups,
            method,
            proved_at: now,
            expires_at: key.expires_at,
        }))
    }

    async fn admit_passkey(&self, passkey: &StoredPasskey) -> Result<PasskeyAdmission, AuthnError> {
        let (notebook, now) = (self.notebook.as_ref(), self.clock.now());
        let (counting, ended) = self.counting(&passkey.handle()).await?;
        for ended in ended {
            passkeys::forget(notebook, &ended, now).await?;
        }
        if counting.len() >= PASSKEYS_PER_PERSON_MAX {
            return Ok(PasskeyAdmission::TooMany(PASSKEYS_PER_PERSON_MAX));
        }
        if !passkeys::register(notebook, passkey, now).await? {
            return Ok(PasskeyAdmission::Known);
        }
        // Several may have been registered at the same time.
        if self.counting(&passkey.handle()).await?.0.len() > PASSKEYS_PER_PERSON_MAX {
            passkeys::forget(notebook, passkey, now).await?;
            return Ok(PasskeyAdmission::TooMany(PASSKEYS_PER_PERSON_MAX));
        }
        Ok(PasskeyAdmission::Kept)
    }

    /// The secret of all gateways of this store, made if there is none yet. Who reads it can foresee challenges, and still needs the passkey.
    async fn shared_secret(&self) -> Result<Secret, JournalError> {
        let unusable = |error: NoRandomness| JournalError::new(error.to_string());
        let secret = Secret::random(CHALLENGE_SECRET_BYTES).map_err(unusable)?;
        let value = format!("\"{}\"", URL_SAFE_NO_PAD.encode(secret.expose()));
        let note = Note { kind: NoteKind::Secret, key: CHALLENGE_PURPOSE.to_owned(), value, expires_at: None };
        let kept = self.notebook.write_first(note).await?;
        let bytes = serde_json::from_str::<String>(&kept.value).ok().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let bytes = bytes.filter(|bytes| bytes.len() == CHALLENGE_SECRET_BYTES);
        bytes.map(Secret::new).ok_or_else(|| JournalError::new("the stored secret is not one"))
    }
}

fn away(error: &AuthnError) -> SignInUnavailable {
    SignInUnavailable(error.to_string())
}
