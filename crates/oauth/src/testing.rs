//! What the tests share: a clock that is set by hand, and an authorization server on this machine.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use reqwest::Url;
use serde_json::{Value, json};
use servanda_authority::{
    Secret,
    sealing::{KEY_BYTES, SealingKey},
};
use servanda_contract::{Caller, Timestamp, time::Clock};
use servanda_effects::{InMemoryNotebook, JournalError, Note, NoteKind, Notebook, PortFuture};
use servanda_upstream::{CredentialRequest, MissingCredential, PresentedCredentials};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{
    allowed_url::{Network, NetworkTrust},
    client::{ClientAuthentication, OauthClient, OauthClientConfig},
    flow::GrantedTokens,
    grant::{UnattendedGrant, UpstreamAccess, UpstreamAccessSource},
    login::Login,
    login_store::LoginStore,
    scope::OauthScopes,
};

pub(crate) const START_MS: u64 = 1_000_000_000;

#[derive(Debug, Clone, Default)]
pub(crate) struct OauthTestClock(Arc<AtomicU64>);

impl OauthTestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_MS)))
    }

    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for OauthTestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

type TokenAnswerFn = dyn Fn(usize, &str) -> (u16, Value) + Send + Sync;

/// An authorization server whose token endpoint answers as the test says. It records the forms it got.
#[derive(Clone)]
pub(crate) struct TokenServer {
    pub(crate) origin: String,
    forms: Arc<Mutex<Vec<String>>>,
}

impl TokenServer {
    /// `answer` gets the number of the request and its form.
    pub(crate) async fn start(answer: impl Fn(usize, &str) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let server = Self { origin, forms: Arc::default() };
        let (serving, answer): (_, Arc<TokenAnswerFn>) = (server.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (serving, answer) = (serving.clone(), Arc::clone(&answer));
                tokio::spawn(async move { serving.serve(stream, &*answer).await });
            }
        });
        server
    }

    pub(crate) fn forms(&self) -> Vec<String> {
        self.forms.lock().unwrap().clone()
    }

    async fn serve(&self, mut stream: TcpStream, answer: &TokenAnswerFn) {
        let mut request = Vec::new();
        let (head, body) = loop {
            let mut chunk = [0; 4096];
            let read = stream.read(&mut chunk).await.unwrap_or(0);
            if read == 0 {
                return;
            }
            request.extend_from_slice(&chunk[..read]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let (status, document) = self.answer(head.split(' ').nth(1).unwrap_or_default(), &body, answer);
        let document = document.to_string();
        let written = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{document}",
            document.len()
        );
        let _ = stream.write_all(written.as_bytes()).await;
    }

    fn answer(&self, path: &str, body: &str, answer: &TokenAnswerFn) -> (u16, Value) {
        let origin = &self.origin;
        match path {
            "/.well-known/oauth-protected-resource/mcp" => (
                200,
                json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin], "scopes_supported": ["a"]}),
            ),
            "/.well-known/oauth-authorization-server" => {
                (200, json!({"issuer": origin, "token_endpoint": format!("{origin}/token")}))
            }
            "/token" => {
                let number = {
                    let mut forms = self.forms.lock().unwrap();
                    forms.push(body.to_owned());
                    forms.len()
                };
                answer(number, body)
            }
            _ => (404, json!({})),
        }
    }

    pub(crate) fn url(&self) -> Url {
        format!("{}/mcp", self.origin).parse().unwrap()
    }

    /// The settings of an upstream next to it.
    pub(crate) fn terms(&self, standing: UnattendedGrant) -> Arc<FixedAccess> {
        let client = OauthClientConfig { id: Some("me".to_owned()), ..OauthClientConfig::default() };
        Arc::new(FixedAccess(UpstreamAccess {
            upstream: "crm".to_owned(),
            url: self.url(),
            issuer: None,
            client,
            scopes: None,
            named: Vec::new(),
            grant: standing,
        }))
    }

    /// A login there, valid for an hour.
    pub(crate) fn login(&self, token: &str, refresh: Option<&str>) -> Login {
        let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh});
        let now = Timestamp::from_unix_ms(START_MS);
        let trust = NetworkTrust::new(self.url(), Network::Loopback);
        let granted = GrantedTokens {
            issuer: self.origin.clone(),
            token_endpoint: trust.follow(&format!("{}/token", self.origin)).unwrap(),
            client: OauthClient { id: "me".to_owned(), proof: ClientAuthentication::None },
            resource: self.url().to_string(),
            scopes: OauthScopes::read("a").unwrap(),
            tokens: crate::token_response::read(
                200,
                body.to_string().as_bytes(),
                crate::token_response::RequestedTokenKind::Access,
                now,
            )
            .unwrap(),
        };
        let configured = OauthClientConfig { id: Some("me".to_owned()), ..OauthClientConfig::default() };
        Login::from_grant(&granted, &configured, None, now)
    }
}

#[derive(Debug)]
pub(crate) struct FixedAccess(pub(crate) UpstreamAccess);

impl UpstreamAccessSource for FixedAccess {
    fn access(&self) -> PortFuture<'_, Result<UpstreamAccess, MissingCredential>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn url(&self) -> &Url {
        &self.0.url
    }
}

pub(crate) fn login_store() -> LoginStore {
    LoginStore::new(Arc::new(InMemoryNotebook::default()), key())
}

pub(crate) fn key() -> Arc<SealingKey> {
    Arc::new(SealingKey::new(crate::login_store::LOGIN_PURPOSE, &Secret::new([7; KEY_BYTES])).unwrap())
}

/// A store that refuses a number of writes of logins, and lets other tasks run before it erases anything.
#[derive(Debug, Default)]
pub(crate) struct UnreliableNotebook {
    pub(crate) writes_refused: AtomicU64,
    notes: InMemoryNotebook,
}

impl Notebook for UnreliableNotebook {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        let fewer = |left: u64| left.checked_sub(1);
        if self.writes_refused.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer).is_ok() {
            return Box::pin(std::future::ready(Err(JournalError::new("away"))));
        }
        self.notes.write(note)
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        self.notes.write_first(note)
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.notes.write_if(note, found, now)
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        self.notes.read(kind, key, now)
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
        let key = key.to_owned();
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.notes.erase(kind, &key).await
        })
    }
}

pub(crate) fn credential_request(tenant: &str, principal: &str) -> CredentialRequest {
    CredentialRequest {
        upstream: "crm".into(),
        on_behalf_of: Some(Arc::new(Caller::named(tenant, principal))),
        authority: None,
        call: None,
        deadline: tokio::time::Instant::now() + std::time::Duration::from_secs(30),
    }
}

/// The token that is shown, or what the user is told.
pub(crate) fn shown(presented: Result<PresentedCredentials, MissingCredential>) -> String {
    match presented {
        Ok(presented) => presented.headers[0].1.as_text().unwrap().to_owned(),
        Err(why) => format!("{why} / {}", why.hint.as_deref().unwrap_or_default()),
    }
}
