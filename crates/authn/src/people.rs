//! People who sign in to the console with an API key, and whether what opened a session still counts. Their keys name the scope `servanda:console`; the doors for agents refuse such keys, and
//! the console refuses all others, so that neither side's credential is good for the other.

use servanda_authority::{
    CredentialId, CredentialMethod, Secret, api_key::KeyError, bearer::AuthenticationError, rights::CONSOLE_SCOPE,
};
use servanda_console::{AuthenticatedPerson, PersonAuthenticator, PersonRejection, SignInMethod, SignInUnavailable};
use servanda_contract::Timestamp;
use servanda_effects::PortFuture;
use zeroize::Zeroizing;

use crate::{
    authenticator::{AuthnError, AuthnMode, CredentialAuthenticator, RequiredAuthn},
    keys,
    revocation::{self, RevocationCheckError},
};

impl PersonAuthenticator for CredentialAuthenticator {
    fn is_single_user(&self) -> bool {
        self.is_local()
    }

    fn authenticate<'a>(&'a self, key: &'a Secret) -> PortFuture<'a, Result<AuthenticatedPerson, PersonRejection>> {
        let mode = self.mode();
        Box::pin(async move {
            let AuthnMode::Required(mode) = &*mode else {
                return Err(wrong("This gateway asks for no credentials.", "a key where none is asked for".to_owned()));
            };
            self.person_of(mode, key).await.map_err(|error| rejection(&error))
        })
    }

    fn is_still_valid<'a>(&'a self, method: &'a SignInMethod) -> PortFuture<'a, Result<bool, SignInUnavailable>> {
        let mode = self.mode();
        Box::pin(async move {
            match (&*mode, method) {
                (AuthnMode::Local, SignInMethod::OneTimeLink) => Ok(true),
                (AuthnMode::Required(mode), SignInMethod::ApiKey { credential }) => {
                    self.is_key_valid(mode, credential).await.map_err(|error| SignInUnavailable(error.to_string()))
                }
                (_, SignInMethod::Passkey { passkey, key }) => {
                    self.counts(passkey, key.as_ref()).await.map_err(|error| SignInUnavailable(error.to_string()))
                }
                (AuthnMode::Required(mode), SignInMethod::Provider { sign_in, settings }) => {
                    let valid = self.is_sign_in_valid(mode, sign_in, settings).await;
                    valid.map_err(|error| SignInUnavailable(error.to_string()))
                }
                // The operator changed how people sign in.
                (AuthnMode::Local, SignInMethod::ApiKey { .. } | SignInMethod::Provider { .. })
                | (AuthnMode::Required(_), SignInMethod::OneTimeLink) => Ok(false),
            }
        })
    }
}

impl CredentialAuthenticator {
    async fn person_of(&self, mode: &RequiredAuthn, key: &Secret) -> Result<AuthenticatedPerson, AuthnError> {
        let text = key.as_text().ok_or(AuthenticationError::ApiKey(KeyError::Malformed))?;
        let header = Zeroizing::new(format!("Bearer {text}"));
        let caller = self.authenticate_anyone(mode, &header).await?;
        let is_for_people = *caller.method() == CredentialMethod::ApiKey
            && caller.actors().is_empty()
            && caller.rights().scopes.names(CONSOLE_SCOPE);
        if !is_for_people {
            return Err(AuthnError::NotForPeople(caller.credential().clone()));
        }
        Ok(AuthenticatedPerson {
            tenant: caller.tenant().to_owned(),
            principal: caller.principal().to_owned(),
            groups: caller.groups().clone(),
            method: SignInMethod::ApiKey { credential: caller.credential().to_string() },
            proved_at: self.clock.now(),
            expires_at: caller.rights().expires_at,
        })
    }

    /// Whether a key that opened a session is neither expired nor revoked, and keys are still accepted.
    pub(crate) async fn is_key_valid(&self, mode: &RequiredAuthn, credential: &str) -> Result<bool, AuthnError> {
        let now = self.clock.now();
        let Some(id) = CredentialId::read(credential).filter(CredentialId::is_key) else { return Ok(false) };
        let Some((_, key_id)) = credential.split_once(':') else { return Ok(false) };
        if !mode.settings.keys || revocation::find(self.notebook.as_ref(), &id, now).await?.is_some() {
            return Ok(false);
        }
        let key = keys::find(self.notebook.as_ref(), key_id, now).await?;
        let is_open = |expires_at: Timestamp| now < expires_at;
        Ok(key.is_some_and(|key| {
            key.revoked_at.is_none() && is_open(key.expires_at) && key.rights.scopes.names(CONSOLE_SCOPE)
        }))
    }
}

fn rejection(error: &AuthnError) -> PersonRejection {
    let message = match error {
        AuthnError::NotForPeople(_) => {
            "This credential is for agents. An operator makes a key for people with `servanda keys create --scope servanda:console`."
        }
        AuthnError::Credential(why) if why.is_temporary() => return unavailable(error),
        AuthnError::Credential(AuthenticationError::ApiKey(KeyError::Expired)) => "The key has expired.",
        AuthnError::Credential(AuthenticationError::ApiKey(KeyError::Revoked))
        | AuthnError::Revocation(RevocationCheckError::Revoked(_)) => "The key was revoked.",
        AuthnError::Credential(_) => "No key for people reads like this. Copy the whole key, from `svk_` to its end.",
        AuthnError::ForPeople(_) | AuthnError::ForMonitors(_) | AuthnError::NotForMonitors(_) => {
            "The key is not accepted here."
        }
        AuthnError::Revocation(RevocationCheckError::Unknown(..)) | AuthnError::Store(_) => return unavailable(error),
    };
    wrong(message, error.to_string())
}

fn unavailable(error: &AuthnError) -> PersonRejection {
    PersonRejection::Unavailable(SignInUnavailable(error.to_string()))
}

fn wrong(message: &str, why: String) -> PersonRejection {
    PersonRejection::Wrong { message: message.to_owned(), why }
}
