//! A secret that a person set, sent in a header, an argument or a variable.
//!
//! It is read again every few seconds, and when the server rejects it, so that a new secret is used without a restart.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use servanda_authority::{Secret, scrubber::SECRET_BYTES_MIN};
use servanda_config::CredentialConfig;
use servanda_effects::PortFuture;
use servanda_upstream::{
    CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PresentedCredentials, Remedy,
};
use servanda_vault::{SecretReference, Vault};
use tokio::time::Instant;

/// How long a secret is used before it is read again.
const FRESH: Duration = Duration::from_secs(5);

/// The parts of `Basic x` that a server decodes: user with password, and the password alone. Shorter ones could not be told from ordinary
/// words.
fn inside_of_basic(written: &Secret) -> Vec<Secret> {
    let mut words = written.as_text().unwrap_or_default().split_whitespace();
    let (Some(scheme), Some(encoded), None) = (words.next(), words.next(), words.next()) else { return Vec::new() };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Vec::new();
    }
    let Ok(decoded) = STANDARD.decode(encoded).map(Secret::new) else { return Vec::new() };
    let colon = decoded.expose().iter().position(|byte| *byte == b':');
    let password = colon.and_then(|at| decoded.expose().get(at + 1..)).map(Secret::new);
    let all = [Some(decoded), password].into_iter().flatten();
    all.filter(|secret| secret.expose().len() >= SECRET_BYTES_MIN).collect()
}

/// One secret of one upstream.
#[derive(Debug)]
pub(super) struct SecretCredentialSource {
    vault: Vault,
    reference: SecretReference,
    config: CredentialConfig,
    cached: Mutex<Option<CachedSecret>>,
}

#[derive(Debug, Clone)]
struct CachedSecret {
    secret: Secret,
    looked_up: Instant,
    /// When it replaced another one; none if it is the first.
    replaced: Option<Instant>,
}

impl SecretCredentialSource {
    /// None if the configuration names no secret.
    pub(super) fn new(vault: Vault, config: &CredentialConfig) -> Option<Self> {
        let reference = config.reference()?;
        Some(Self { vault, reference, config: config.clone(), cached: Mutex::default() })
    }

    fn cached(&self) -> Option<CachedSecret> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cache(&self, secret: &Secret) {
        let mut known = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let same = |before: &CachedSecret| before.secret.expose() == secret.expose();
        let replaced = known.as_ref().and_then(|before| if same(before) { before.replaced } else { Some(now) });
        *known = Some(CachedSecret { secret: secret.clone(), looked_up: now, replaced });
    }

    async fn look_up(&self) -> Result<Secret, MissingCredential> {
        let (vault, reference) = (self.vault.clone(), self.reference.clone());
        let looked_up = tokio::task::spawn_blocking(move || vault.get(&reference)).await;
        let looked_up = looked_up.map_err(|_| MissingCredential::unavailable("the secret could not be looked up"))?;
        let secret =
            looked_up.map_err(|lack| MissingCredential::unavailable(lack.to_string()).with_hint(lack.hint()))?;
        self.cache(&secret);
        Ok(secret)
    }

    async fn secret(&self) -> Result<Secret, MissingCredential> {
        match self.cached() {
            Some(known) if known.looked_up.elapsed() < FRESH => Ok(known.secret),
            _ => self.look_up().await,
        }
    }

    fn shown(&self, secret: Secret) -> Result<PresentedCredentials, MissingCredential> {
        let text = secret.as_text().ok_or_else(|| {
            MissingCredential::unavailable(format!("the secret `{}` is not text", self.reference))
                .with_hint(self.how_to_set())
        })?;
        let written = Secret::from(self.config.written(text));
        let CredentialConfig { header, argument, env, .. } = &self.config;
        let at = |place: &Option<String>| place.clone().map(|name| (name, written.clone())).into_iter().collect();
        Ok(PresentedCredentials {
            headers: at(header),
            arguments: at(argument),
            environment: at(env),
            hidden: [secret].into_iter().chain(inside_of_basic(&written)).collect(),
            ..PresentedCredentials::default()
        })
    }

    fn how_to_set(&self) -> String {
        match &self.reference {
            SecretReference::Store(name) => format!("servanda secret set {name}"),
            other => format!("set {other} anew"),
        }
    }
}

impl CredentialSource for SecretCredentialSource {
    fn present<'a>(
        &'a self,
        _: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(async { self.shown(self.secret().await?) })
    }

    fn rejected<'a>(&'a self, _: &'a CredentialRequest, rejection: &'a CredentialRejection) -> PortFuture<'a, Remedy> {
        Box::pin(async {
            if let Err(lack) = self.look_up().await {
                return Remedy::GiveUp(lack);
            }
            // A request that is rejected shortly after a replacement used the old secret.
            let replaced = self.cached().and_then(|known| known.replaced);
            if rejection.rejected_before == 0 && replaced.is_some_and(|at| at.elapsed() < FRESH) {
                return Remedy::TryAgain;
            }
            let told = format!("it rejects the secret `{}`", self.reference);
            // A server that answers 403 recognises us and refuses; the same secret would not change that.
            let lack = match rejection.status {
                403 => MissingCredential::not_permitted(told),
                _ => MissingCredential::unavailable(told),
            };
            Remedy::GiveUp(lack.with_hint(self.how_to_set()))
        })
    }

    fn is_personal(&self) -> bool {
        false
    }

    fn argument_pointers(&self) -> Vec<String> {
        self.config.argument.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

    use super::*;

    fn write(folder: &Path, text: &str) {
        fs::write(folder.join("secret"), text).unwrap();
        fs::set_permissions(folder.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn source(folder: &Path, format: &str) -> SecretCredentialSource {
        let config = serde_json::json!({"secret": "file:secret", "header": "authorization", "format": format});
        SecretCredentialSource::new(Vault::new(folder, None), &serde_json::from_value(config).unwrap()).unwrap()
    }

    fn credential_request() -> CredentialRequest {
        let deadline = Instant::now() + Duration::from_secs(30);
        CredentialRequest { upstream: "crm".into(), on_behalf_of: None, authority: None, call: None, deadline }
    }

    fn rejection(rejected_before: usize) -> CredentialRejection {
        CredentialRejection { status: 401, www_authenticate: None, rejected_before }
    }

    #[tokio::test]
    async fn every_request_with_the_old_secret_tries_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "secret-1");
        let (source, credential_request) = (source(folder.path(), "Bearer {}"), credential_request());
        source.present(&credential_request).await.unwrap();
        let alone = source.rejected(&credential_request, &rejection(0)).await;
        assert!(matches!(alone, Remedy::GiveUp(_)), "there is no other: {alone:?}");
        write(folder.path(), "secret-2");
        // Two requests used the first secret; the second is rejected when the new one is already known.
        for _ in 0..2 {
            assert_eq!(source.rejected(&credential_request, &rejection(0)).await, Remedy::TryAgain);
        }
        assert_eq!(source.present(&credential_request).await.unwrap().headers[0].1.as_text(), Some("Bearer secret-2"));
        let again = source.rejected(&credential_request, &rejection(1)).await;
        assert!(matches!(again, Remedy::GiveUp(_)), "{again:?}");
    }

    #[tokio::test]
    async fn t25_what_a_server_reads_out_of_basic_credentials_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let table = [
            ("Basic {}", "ada:hunter-22:x", vec!["ada:hunter-22:x", "hunter-22:x"]),
            ("basic {}", "ada:short", vec!["ada:short"]),
            ("Bearer {}", "ada:hunter-22", vec![]),
        ];
        for (format, inside, expected) in table {
            let encoded = STANDARD.encode(inside);
            write(folder.path(), &encoded);
            let presented = source(folder.path(), format).present(&credential_request()).await.unwrap();
            let hidden: Vec<_> = presented.hidden.iter().filter_map(Secret::as_text).collect();
            let expected: Vec<_> = [encoded.as_str()].into_iter().chain(expected).collect();
            assert_eq!(hidden, expected, "{format}");
        }
    }
}
