//! Asks language models over HTTP with the `chat/completions` protocol: each model once, limited in number, time and size. A request is
//! repeated only if the server was too busy. `opinion` decides what is asked and what an answer means.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use servanda_identity::classifier::{ClassifierOptions, Descriptor};
use servanda_upstream::retry_after_ms;
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    model_config::{LanguageModel, ModelLimits},
    opinion::{self, Opinion},
};
use crate::failure::CommandFailure;

/// How long a connection may take to be made.
const CONNECT_MS_MAX: u64 = 10_000;
/// The first wait before a request is repeated, doubled each time, if the server does not say how long to wait.
const RETRY_MS: u64 = 500;

/// The models, and the HTTP client for them.
#[derive(Debug)]
pub(super) struct ModelPanel {
    members: Vec<Arc<PanelModel>>,
    client: Client,
    limits: ModelLimits,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct PanelModel {
    model: LanguageModel,
    /// Whether it accepts `response_format`, as far as is known.
    json_mode: AtomicBool,
}

/// Why one attempt failed.
enum ModelAttemptError {
    /// The server is too busy; it may say for how long.
    Busy { status: u16, retry_after_ms: Option<u64> },
    /// The server does not accept `response_format`.
    NoJsonMode,
    /// Another attempt would not help.
    Failed(String),
}

impl ModelPanel {
    pub(super) fn new(models: Vec<LanguageModel>, limits: ModelLimits) -> Result<Self, CommandFailure> {
        let client = Client::builder()
            .user_agent(concat!("servanda/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(Duration::from_millis(CONNECT_MS_MAX))
            .timeout(Duration::from_millis(limits.timeout_ms))
            .build()
            .map_err(|error| CommandFailure::failed(format!("the HTTP client could not be made: {error}")))?;
        let members = models.into_iter().map(|model| Arc::new(PanelModel { model, json_mode: AtomicBool::new(true) }));
        Ok(Self {
            members: members.collect(),
            client,
            limits,
            permits: Arc::new(Semaphore::new(limits.concurrent_max.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// The names of the models, in order.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.model.label.as_str())
    }

    /// Asks every model about a tool; the opinions are in the models' order.
    ///
    /// Cancel safe: requests under way are dropped.
    pub(super) async fn ask(&self, descriptor: &Descriptor, options: ClassifierOptions) -> Vec<Opinion> {
        let mut asking = JoinSet::new();
        for (place, member) in self.members.iter().enumerate() {
            let (member, turns, client, limits) =
                (member.clone(), self.permits.clone(), self.client.clone(), self.limits);
            let descriptor = descriptor.clone();
            asking.spawn(async move {
                let _turn = turns.acquire_owned().await;
                (place, member.ask(&client, limits, &descriptor, options).await)
            });
        }
        let mut opinions = asking.join_all().await;
        opinions.sort_by_key(|(place, _)| *place);
        opinions.into_iter().map(|(_, opinion)| opinion).collect()
    }
}

impl PanelModel {
    async fn ask(
        &self,
        client: &Client,
        limits: ModelLimits,
        descriptor: &Descriptor,
        options: ClassifierOptions,
    ) -> Opinion {
        let unanswered = |why: String| Opinion::Unanswered { unanswered: why };
        let mut tried = 0;
        loop {
            let json_mode = self.json_mode.load(Ordering::Relaxed);
            let body = opinion::request(&self.model.own_name, descriptor, options, json_mode);
            match self.attempt(client, limits, body.to_string(), json_mode).await {
                Ok(answer) => return opinion::read(&answer),
                Err(ModelAttemptError::Failed(why)) => return unanswered(why),
                Err(ModelAttemptError::NoJsonMode) => self.json_mode.store(false, Ordering::Relaxed),
                Err(ModelAttemptError::Busy { status, .. }) if tried >= limits.retries_max => {
                    return unanswered(format!("status {status}, {} times", tried + 1));
                }
                Err(ModelAttemptError::Busy { status, retry_after_ms }) => {
                    let wait_ms = retry_after_ms.unwrap_or(RETRY_MS.saturating_mul(1 << tried.min(16)));
                    if wait_ms > limits.retry_wait_ms_max {
                        return unanswered(format!("status {status}, and it asks to wait {wait_ms} ms"));
                    }
                    tried += 1;
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                }
            }
        }
    }

    async fn attempt(
        &self,
        client: &Client,
        limits: ModelLimits,
        body: String,
        json_mode: bool,
    ) -> Result<Vec<u8>, ModelAttemptError> {
        let mut request = client.post(self.model.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(authorization) = &self.model.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let answer = request.send().await.map_err(|error| ModelAttemptError::Failed(describe_error(error, limits)))?;
        let (status, wait_ms) = (answer.status(), retry_after_ms(answer.headers()));
        if status.as_u16() == 429 || status.is_server_error() {
            return Err(ModelAttemptError::Busy { status: status.as_u16(), retry_after_ms: wait_ms });
        }
        let answer = body_of(answer, limits).await?;
        if status.is_success() {
            return Ok(answer);
        }
        let names_it = String::from_utf8_lossy(&answer).contains("response_format");
        if json_mode && status.is_client_error() && names_it {
            return Err(ModelAttemptError::NoJsonMode);
        }
        Err(ModelAttemptError::Failed(format!("status {}", status.as_u16())))
    }
}

/// The body of an answer, up to the size limit.
async fn body_of(mut answer: Response, limits: ModelLimits) -> Result<Vec<u8>, ModelAttemptError> {
    let mut body = Vec::new();
    while let Some(chunk) =
        answer.chunk().await.map_err(|error| ModelAttemptError::Failed(describe_error(error, limits)))?
    {
        if body.len().saturating_add(chunk.len()) > limits.answer_bytes_max {
            return Err(ModelAttemptError::Failed(format!(
                "the answer is longer than {} bytes",
                limits.answer_bytes_max
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The error, without the address.
fn describe_error(error: reqwest::Error, limits: ModelLimits) -> String {
    if error.is_timeout() {
        return format!("no answer within {} ms", limits.timeout_ms);
    }
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
