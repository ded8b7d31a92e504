//! A door on a real socket, and a client that sends everything the protocol requires unless told otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use reqwest::{Method, StatusCode, header::HeaderValue};
use serde_json::{Value, json};
use servanda_authority::{
    AuthenticatedCaller, Rights,
    api_key::{self, ApiKeySpec, CreatedApiKey, PresentedKey},
    challenge::Challenge,
    rights::{ResourcePatterns, Scopes},
};
use servanda_contract::Timestamp;
use servanda_doors::{
    HttpOptions, ServingOptions,
    http::{self, AuthRejection, Authenticator, DoorThreads},
};
use servanda_engine::{PortFuture, local_authority};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{Fixture, Started, fixture, identity, within},
    schema::{self, Era},
};

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) fixture: Arc<Fixture>,
    pub(crate) started: mpsc::Receiver<Started>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<std::io::Result<()>>,
    client: reqwest::Client,
    /// Held as a gateway holds them: calls go on there after the door is closed.
    _threads: DoorThreads,
}

/// A request, as headers and a body.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) era: Era,
    pub(crate) rpc_method: String,
    pub(crate) method: Method,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: String,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    era: Era,
    method: String,
    response: reqwest::Response,
    buffer: String,
    /// The id of the last event.
    pub(crate) last_id: Option<String>,
    /// After how long the client should come back, if it was told.
    pub(crate) retry_ms: Option<u64>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut HttpOptions)) -> Self {
        Self::start_draining(adjust, Duration::from_secs(30)).await
    }

    pub(crate) async fn start_draining(adjust: impl FnOnce(&mut HttpOptions), drain_max: Duration) -> Self {
        let drain_ms_max = u64::try_from(drain_max.as_millis()).unwrap();
        Self::start_serving(adjust, ServingOptions { drain_ms_max, ..ServingOptions::default() }).await
    }

    pub(crate) async fn start_serving(adjust: impl FnOnce(&mut HttpOptions), serving: ServingOptions) -> Self {
        let (fixture, started) = fixture();
        Self::start_over(fixture, started, adjust, serving).await
    }

    /// Another door to the same gateway. Slow calls report to the first.
    pub(crate) async fn start_beside(&self, adjust: impl FnOnce(&mut HttpOptions)) -> Self {
        let fixture = Arc::clone(&self.fixture);
        Self::start_over(fixture, mpsc::channel(1).1, adjust, ServingOptions::default()).await
    }

    async fn start_over(
        fixture: Arc<Fixture>,
        started: mpsc::Receiver<Started>,
        adjust: impl FnOnce(&mut HttpOptions),
        serving: ServingOptions,
    ) -> Self {
        let mut options = HttpOptions::new(identity());
        options.authenticator = Arc::new(Trusting);
        adjust(&mut options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        // As in a gateway: the door accepts here, and serves on threads of its own.
        let threads = if serving.threads.count() == 0 { DoorThreads::start(2).unwrap() } else { serving.threads };
        let serving = ServingOptions { threads: threads.clone(), ..serving };
        let router = http::router(Arc::clone(&fixture), options);
        let task = tokio::spawn(http::serve_with(listener, router, shutdown.clone(), serving));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, fixture, started, shutdown, task, client, _threads: threads }
    }

    /// Sends and reads to the end. Every JSON answer is checked against the schema.
    pub(crate) async fn send(&self, call: &Call) -> Answer {
        send(&self.client, self.address, call).await
    }

    /// Sends in a task of its own; aborting it closes the connection.
    pub(crate) fn send_later(&self, call: &Call) -> JoinHandle<Answer> {
        let (client, address, call) = (self.client.clone(), self.address, call.clone());
        tokio::spawn(async move { send(&client, address, &call).await })
    }

    /// Sends and reads events as they come.
    pub(crate) async fn stream(&self, call: &Call) -> Events {
        self.try_stream(call).await.expect("a stream")
    }

    /// The same in a task of its own.
    pub(crate) fn stream_later(&self, call: &Call) -> JoinHandle<Events> {
        let (client, address, call) = (self.client.clone(), self.address, call.clone());
        tokio::spawn(async move { stream(&client, address, &call).await.expect("a stream") })
    }

    /// The same, but `None` if the door has no place for another stream.
    pub(crate) async fn try_stream(&self, call: &Call) -> Option<Events> {
        stream(&self.client, self.address, call).await
    }

    /// Begins a session and returns its id.
    pub(crate) async fn begin_session(&self) -> String {
        self.begin_session_with("2025-11-25", json!({})).await
    }

    /// The same for a client of that revision with those capabilities.
    pub(crate) async fn begin_session_with(&self, version: &str, capabilities: Value) -> String {
        let mut message = initialize(version);
        message["params"]["capabilities"] = capabilities;
        let answer = self.send(&legacy(None, message)).await;
        assert_eq!(answer.status, 200);
        let session = answer.session().unwrap();
        let initialized = legacy(Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let answer = self.send(&initialized.without("mcp-protocol-version")).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (202, ""));
        session
    }

    /// The next slow call.
    pub(crate) async fn started(&mut self) -> Started {
        within(self.started.recv()).await.unwrap()
    }
}

/// The caller, in the header that the authenticator reads.
fn authorization(call: &Call) -> Option<String> {
    let said = |name: &str, otherwise: &str| call.headers.get(name).map_or(otherwise.to_owned(), Clone::clone);
    let principal = call.headers.get("x-test-principal")?;
    Some(format!("Test {} {principal} {}", said("x-test-tenant", "local"), said("x-test-resource", "*")))
}

/// Accepts every named caller and gives it a real key; a caller without a name is the local principal.
#[derive(Debug)]
struct Trusting;

impl Authenticator for Trusting {
    fn admit<'a>(
        &'a self,
        authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<AuthenticatedCaller>, AuthRejection>> {
        let told = authorization.map(|value| value.to_str().unwrap().split(' ').collect::<Vec<_>>());
        Box::pin(async move {
            let Some([_, tenant, principal, resource]) = told.as_deref() else { return Ok(local_authority()) };
            let now = Timestamp::from_unix_ms(1_000);
            let terms = ApiKeySpec {
                tenant: (*tenant).to_owned(),
                principal: (*principal).to_owned(),
                groups: BTreeSet::new(),
                label: "test".to_owned(),
                rights: Rights {
                    scopes: Scopes::none(),
                    resources: ResourcePatterns::read(&[*resource]).unwrap(),
                    ..Rights::unlimited()
                },
                expires_at: Timestamp::from_unix_ms(2_000),
            };
            let CreatedApiKey { stored, text } = api_key::make(terms, now).unwrap();
            let presented = PresentedKey::read(text.as_text().unwrap()).unwrap();
            Ok(Arc::new(stored.authenticate(&presented, now).unwrap()))
        })
    }

    fn step_up(&self, _authority: &AuthenticatedCaller, _scopes_needed: &[String]) -> Option<Challenge> {
        None
    }
}

async fn stream(client: &reqwest::Client, address: SocketAddr, call: &Call) -> Option<Events> {
    let response = within(build(client, address, call).send()).await.unwrap();
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    assert_eq!(response.status(), StatusCode::OK);
    let headers = response.headers();
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-cache");
    assert_eq!(headers["x-accel-buffering"], "no");
    let (era, method) = (call.era, call.rpc_method.clone());
    Some(Events { era, method, response, buffer: String::new(), last_id: None, retry_ms: None })
}

async fn send(client: &reqwest::Client, address: SocketAddr, call: &Call) -> Answer {
    let response = within(build(client, address, call).send()).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let answer = Answer { status, headers, body: within(response.text()).await.unwrap() };
    if answer.content_type() == "application/json" {
        schema::check(call.era, &call.rpc_method, &answer.json());
    }
    answer
}

fn build(client: &reqwest::Client, address: SocketAddr, call: &Call) -> reqwest::RequestBuilder {
    let mut request = client.request(call.method.clone(), format!("http://{address}/mcp"));
    if let Some(authorization) = authorization(call) {
        request = request.header("authorization", authorization);
    }
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    request.body(call.body.clone())
}

impl Call {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.remove(name);
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn code(&self) -> i64 {
        self.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.body))
    }

    pub(crate) fn session(&self) -> Option<String> {
        Some(self.headers.get("mcp-session-id")?.to_str().unwrap().to_owned())
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers.get("content-type").map_or("", |value| value.to_str().unwrap())
    }
}

impl Events {
    /// The next message, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let data = self.event().await?;
            if !data.is_empty() {
                let message = serde_json::from_str(&data).unwrap();
                schema::check(self.era, &self.method, &message);
                return Some(message);
            }
        }
    }

    /// The data of the next event, which may be empty.
    pub(crate) async fn event(&mut self) -> Option<String> {
        loop {
            let frame = self.frame().await?;
            if frame.starts_with(':') {
                continue;
            }
            let mut data = None;
            for line in frame.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => self.last_id = Some(id.to_owned()),
                    Some(("retry", retry_ms)) => self.retry_ms = Some(retry_ms.parse().unwrap()),
                    Some(("data", text)) => assert!(data.replace(text.to_owned()).is_none(), "one line is one message"),
                    _ => panic!("no field of an event: {line}"),
                }
            }
            return data;
        }
    }

    /// The next frame, which may be a comment.
    pub(crate) async fn frame(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.buffer.split_once("\n\n") {
                let frame = frame.to_owned();
                self.buffer = rest.to_owned();
                return Some(frame);
            }
            let chunk = within(self.response.chunk()).await.unwrap()?;
            self.buffer.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({"name": "test\u{7}client", "version": "1.0"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

/// A message of the legacy era.
pub(crate) fn legacy(session: Option<&str>, message: impl Into<Value>) -> Call {
    let message = message.into();
    let mut call = Call {
        era: Era::Legacy,
        rpc_method: message["method"].as_str().unwrap_or_default().to_owned(),
        method: Method::POST,
        headers: BTreeMap::new(),
        body: message.to_string(),
    };
    call = call.with("accept", "application/json, text/event-stream").with("content-type", "application/json");
    match session {
        Some(session) => call.with("mcp-session-id", session).with("mcp-protocol-version", "2025-11-25"),
        None => call,
    }
}

/// A request of the modern era, with everything it must have.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Call {
    params["_meta"] = meta(params["_meta"].take());
    let message = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
    let call = legacy(None, message.clone()).with("mcp-protocol-version", "2026-07-28").with("mcp-method", method);
    let call = Call { era: Era::Modern, ..call };
    let name = match method {
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => "name",
    };
    match message["params"][name].as_str() {
        Some(name) => call.with("mcp-name", name),
        None => call,
    }
}

/// `_meta` of a modern request, with further members.
pub(crate) fn meta(others: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "2"},
    });
    if let Value::Object(others) = others {
        meta.as_object_mut().unwrap().extend(others);
    }
    meta
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: impl Into<Value>) -> Value {
    let params = params.into();
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}
