//! A secret that somebody set, shown in a header, an argument or a variable.
//!
//! It is read again every few seconds and whenever the server does not take it: who sets a new one need not start anything
//! anew.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use servanda_authority::Secret;
use servanda_gates::PortFuture;
use servanda_upstream::{CredentialSource, Errand, NotPresented, Presented, Rejection, Remedy};
use servanda_vault::{SecretReference, Vault};
use tokio::time::Instant;

use crate::config::CredentialConfig;

/// How long a secret is used without being looked up.
const FRESH: Duration = Duration::from_secs(5);

/// One secret of one upstream.
#[derive(Debug)]
pub(super) struct StoredSecret {
    vault: Vault,
    reference: SecretReference,
    config: CredentialConfig,
    known: Mutex<Option<(Secret, Instant)>>,
}

impl StoredSecret {
    /// None where the configuration names no secret.
    pub(super) fn new(vault: Vault, config: &CredentialConfig) -> Option<Self> {
        let reference = config.reference()?;
        Some(Self { vault, reference, config: config.clone(), known: Mutex::default() })
    }

    fn known(&self) -> Option<(Secret, Instant)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn look_up(&self) -> Result<Secret, NotPresented> {
        let (vault, reference) = (self.vault.clone(), self.reference.clone());
        let looked_up = tokio::task::spawn_blocking(move || vault.get(&reference)).await;
        let looked_up = looked_up.map_err(|_| NotPresented::unavailable("the secret could not be looked up"))?;
        let secret = looked_up.map_err(|lack| NotPresented::unavailable(lack.to_string()).hinting(lack.hint()))?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some((secret.clone(), Instant::now()));
        Ok(secret)
    }

    async fn secret(&self) -> Result<Secret, NotPresented> {
        match self.known() {
            Some((secret, at)) if at.elapsed() < FRESH => Ok(secret),
            _ => self.look_up().await,
        }
    }

    fn shown(&self, secret: Secret) -> Result<Presented, NotPresented> {
        let text = secret.as_text().ok_or_else(|| {
            NotPresented::unavailable(format!("the secret `{}` is no text", self.reference)).hinting(self.how_to_set())
        })?;
        let written = Secret::from(self.config.written(text));
        let CredentialConfig { header, argument, env, .. } = &self.config;
        let at = |place: &Option<String>| place.clone().map(|name| (name, written.clone())).into_iter().collect();
        Ok(Presented {
            headers: at(header),
            arguments: at(argument),
            environment: at(env),
            hidden: vec![secret],
            ..Presented::default()
        })
    }

    fn how_to_set(&self) -> String {
        match &self.reference {
            SecretReference::Store(name) => format!("servanda secret set {name}"),
            other => format!("set {other} anew"),
        }
    }
}

impl CredentialSource for StoredSecret {
    fn present<'a>(&'a self, _: &'a Errand) -> PortFuture<'a, Result<Presented, NotPresented>> {
        Box::pin(async { self.shown(self.secret().await?) })
    }

    fn rejected<'a>(&'a self, _: &'a Errand, rejection: &'a Rejection) -> PortFuture<'a, Remedy> {
        Box::pin(async {
            let before = self.known().map(|(secret, _)| secret);
            let now = match self.look_up().await {
                Ok(now) => now,
                Err(lack) => return Remedy::GiveUp(lack),
            };
            if before.is_some_and(|before| before.expose() != now.expose()) {
                return Remedy::TryAgain;
            }
            let told = format!("it does not take the secret `{}`", self.reference);
            // A server that knows who we are and says no will not be persuaded by the same secret.
            let lack = match rejection.status {
                403 => NotPresented::not_permitted(told),
                _ => NotPresented::unavailable(told),
            };
            Remedy::GiveUp(lack.hinting(self.how_to_set()))
        })
    }

    fn is_personal(&self) -> bool {
        false
    }

    fn argument_pointers(&self) -> Vec<String> {
        self.config.argument.iter().cloned().collect()
    }
}
