//! For tests: a clock that the test sets, a store that can fail, and an issuer on loopback that counts its requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::HeaderValue;
use serde_json::{Value, json};
use servanda_authority::{
    AuthenticatedCaller, Rights, Secret,
    api_key::ApiKeySpec,
    rights::Scopes,
    sealing::SealingKey,
    signature::Algorithm,
    token::{Issuer, TenantSource},
};
use servanda_contract::{Timestamp, time::Clock};
use servanda_doors::http::{AuthRejection, Authenticator as _};
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::{
    AuthnSettings, CredentialAuthenticator, IssuerSettings, KEY_CACHE_POLICY, RequiredAuthnSettings,
    attestation_keys::ATTESTATION_PURPOSE,
    keys,
    root_keys::{ROOTS_PURPOSE, SealingKeySource},
};

pub(crate) const RESOURCE: &str = "https://gateway.test/mcp";
pub(crate) const NOW_MS: u64 = 1_800_000_000_000;

#[derive(Debug)]
pub(crate) struct AuthnTestClock(AtomicU64);

impl AuthnTestClock {
    pub(crate) fn at(ms: u64) -> Self {
        Self(ms.into())
    }

    pub(crate) fn pass_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for AuthnTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

/// A notebook that fails when told to.
#[derive(Debug, Default)]
pub(crate) struct AuthnTestNotebook {
    notes: InMemoryNotebook,
    pub(crate) away: AtomicBool,
}

impl AuthnTestNotebook {
    fn here(&self) -> Result<(), JournalError> {
        if self.away.load(Ordering::SeqCst) { Err(JournalError::new("away")) } else { Ok(()) }
    }
}

impl Notebook for AuthnTestNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async {
            self.here()?;
            self.notes.write(note).await
        })
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async {
            self.here()?;
            self.notes.write_first(note).await
        })
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        Box::pin(async move {
            self.here()?;
            self.notes.write_if(note, found, now).await
        })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            self.here()?;
            self.notes.read(kind, &key, now).await
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        self.notes.list(kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.notes.erase(kind, key)
    }
}

/// A sealing key made of that byte.
#[derive(Debug)]
pub(crate) struct FixedSeal(pub(crate) u8);

impl SealingKeySource for FixedSeal {
    fn roots_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ROOTS_PURPOSE, &Secret::new([self.0; 32])).map_err(|error| error.to_string())
    }

    fn attestation_key(&self) -> Result<SealingKey, String> {
        SealingKey::new(ATTESTATION_PURPOSE, &Secret::new([self.0; 32])).map_err(|error| error.to_string())
    }
}

/// An authenticator with everything that it depends on.
pub(crate) struct AuthnFixture {
    pub(crate) authenticator: CredentialAuthenticator,
    pub(crate) store: Arc<AuthnTestNotebook>,
    pub(crate) clock: Arc<AuthnTestClock>,
}

impl AuthnFixture {
    pub(crate) fn new(issuers: Vec<IssuerSettings>) -> Self {
        let store = Arc::new(AuthnTestNotebook::default());
        let clock = Arc::new(AuthnTestClock(AtomicU64::new(NOW_MS)));
        let authenticator =
            CredentialAuthenticator::new(store.clone(), clock.clone(), Arc::new(FixedSeal(7)), terms(issuers)).unwrap();
        Self { authenticator, store, clock }
    }

    /// Another gateway on the same store, with the sealing key of that byte.
    pub(crate) fn beside(&self, byte: u8) -> Self {
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let authenticator =
            CredentialAuthenticator::new(store.clone(), clock.clone(), Arc::new(FixedSeal(byte)), terms(Vec::new()))
                .unwrap();
        Self { authenticator, store, clock }
    }

    /// Creates a key for that tenant's principal with these scopes.
    pub(crate) async fn key(&self, tenant: &str, principal: &str, scopes: &[&str]) -> (String, String) {
        let now = self.clock.now();
        let terms = ApiKeySpec {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
            groups: BTreeSet::from(["staff".to_owned()]),
            label: "test".to_owned(),
            rights: Rights { scopes: Scopes::from_words(scopes).unwrap(), ..Rights::unlimited() },
            expires_at: Timestamp::from_unix_ms(now.unix_ms() + 86_400_000),
        };
        let made = keys::make(self.store.as_ref(), terms, now).await.unwrap();
        (made.stored.id.clone(), made.text.as_text().unwrap().to_owned())
    }

    pub(crate) async fn admit(&self, credential: &str) -> Result<Arc<AuthenticatedCaller>, AuthRejection> {
        let header = HeaderValue::from_str(&format!("Bearer {credential}")).unwrap();
        self.authenticator.admit(Some(&header)).await
    }

    /// The message for a credential that is refused.
    pub(crate) async fn told(&self, credential: &str) -> String {
        match self.admit(credential).await {
            Ok(who) => panic!("{} was let in", who.principal()),
            Err(AuthRejection::Unavailable { message: told }) => format!("later: {told}"),
            Err(AuthRejection::Challenged { challenge, message: told, .. }) => {
                assert_eq!(challenge.status, 401);
                assert!(!challenge.header.contains(credential) && !told.contains(credential));
                told
            }
        }
    }
}

pub(crate) fn terms(issuers: Vec<IssuerSettings>) -> AuthnSettings {
    AuthnSettings::Required(Box::new(RequiredAuthnSettings {
        resource: RESOURCE.to_owned(),
        keys: true,
        issuers,
        provider: None,
        scopes_supported: ["a:read", "a:write"].map(|scope| scope.to_owned().try_into().unwrap()).into(),
        scopes_first: ["a:read"].map(|scope| scope.to_owned().try_into().unwrap()).into(),
    }))
}

/// Its answers, by path.
type TestIssuerAnswers = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

/// An authorization server, as far as a verifier of tokens sees it.
pub(crate) struct TestIssuer {
    pub(crate) url: String,
    key: Ed25519KeyPair,
    answers: TestIssuerAnswers,
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
}

impl TestIssuer {
    /// An issuer that publishes one key under this id.
    pub(crate) async fn start(kid: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answers, asked) = (TestIssuerAnswers::default(), Arc::<Mutex<Vec<String>>>::default());
        let issuer =
            Self { url, key: Ed25519KeyPair::generate().unwrap(), answers: answers.clone(), asked: asked.clone() };
        let metadata = json!({ "issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url) });
        issuer.answer("/.well-known/openid-configuration", 200, &metadata.to_string());
        issuer.publish(&[kid]);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (answers, asked) = (answers.clone(), asked.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if connection.read(&mut byte).await.unwrap_or(0) == 0 {
                            return;
                        }
                        head.push(byte[0]);
                    }
                    let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap().to_owned();
                    asked.lock().unwrap().push(path.clone());
                    let (status, body) = answers.lock().unwrap().get(&path).cloned().unwrap_or((404, String::new()));
                    let location = if status == 302 { format!("location: {body}\r\n") } else { String::new() };
                    let head = format!(
                        "HTTP/1.1 {status} X\r\n{location}content-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = connection.write_all(format!("{head}{body}").as_bytes()).await;
                });
            }
        });
        issuer
    }

    pub(crate) fn answer(&self, path: &str, status: u16, body: &str) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, body.to_owned()));
    }

    /// Publishes its key under these ids.
    pub(crate) fn publish(&self, kids: &[&str]) {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key().as_ref());
        let key = |kid: &&str| json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": kid, "x": x });
        let keys: Vec<Value> = kids.iter().map(key).collect();
        self.answer("/keys", 200, &json!({ "keys": keys }).to_string());
    }

    pub(crate) fn asked_for_keys(&self) -> usize {
        self.asked.lock().unwrap().iter().filter(|path| *path == "/keys").count()
    }

    /// A valid token with these changes to its claims.
    pub(crate) fn token(&self, kid: &str, changes: &Value) -> String {
        let mut claims = json!({
            "iss": self.url, "aud": RESOURCE, "sub": "ada", "exp": NOW_MS / 1000 + 100_000, "scope": "a:read",
            "groups": ["staff"], "jti": "t-1",
        });
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let header = json!({ "alg": "EdDSA", "kid": kid, "typ": "at+jwt" });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&header), part(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }

    pub(crate) fn terms(&self) -> IssuerSettings {
        let issuer = Issuer {
            issuer: self.url.clone(),
            audience: RESOURCE.to_owned(),
            algorithms: vec![Algorithm::EdDsa],
            tenant: TenantSource::Fixed("acme".to_owned()),
            principal_claim: None,
            principal_prefix: String::new(),
            groups_claim: Some("groups".to_owned()),
            rights: Rights::unlimited(),
            leeway_ms: 0,
        };
        IssuerSettings { issuer, jwks_uri: None, cache: KEY_CACHE_POLICY }
    }
}
