//! What all connections of one upstream share: its configuration, its credentials, its tasks, its eras, and, in the modules below,
//! announcements, message sinks and watches.

pub(crate) mod announcement;
mod attached;
pub(crate) mod end_pace;
mod protocol_warnings;
pub(crate) mod watches;

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use hyper::header::HeaderMap;
use servanda_effects::Notebook;
use servanda_mcp::shape;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::task::TaskTracker;

use self::{
    announcement::AnnouncementBus, attached::AttachedSinks, end_pace::EndPace, protocol_warnings::ProtocolWarnings,
    watches::UpstreamWatches,
};
use crate::{
    Announcement, CredentialRequest, CredentialSource, MissingCredential, RequestUser, Transport, UpstreamRequester,
    UpstreamSpec,
    credentials::{Credentials, RedactedCredentials, header_map, redaction::Redaction},
    eras::{KnownEras, notes::EraNotes},
    http_client::{HttpEndpoint, InProcessListener},
};

/// What all connections of one upstream share.
#[derive(Debug)]
pub(crate) struct SharedContext {
    pub(crate) spec: UpstreamSpec,
    pub(crate) redaction: Arc<Redaction>,
    /// The credentials for the server, if it has any.
    pub(crate) credentials: Option<Credentials>,
    /// Every task of this upstream, so that the shutdown can wait for them.
    pub(crate) tasks: TaskTracker,
    /// How long the server's processes get to end.
    pub(crate) end_pace: EndPace,
    pub(crate) announcement_bus: AnnouncementBus,
    pub(crate) protocol_warnings: ProtocolWarnings,
    pub(crate) attached: AttachedSinks,
    pub(crate) watches: UpstreamWatches,
    pub(crate) era_notes: EraNotes,
    pub(crate) known_eras: KnownEras,
    /// Whether the server has asked something without saying for which request.
    pub(crate) asks_beside_requests: AtomicBool,
    /// The address of an HTTP server, with one pool for all sessions; created when first needed.
    endpoint: OnceLock<Result<HttpEndpoint, String>>,
    /// Where an HTTP server accepts connections, if it runs in this process.
    in_process: Option<InProcessListener>,
    last_id: AtomicI64,
    last_edition: AtomicU64,
    /// Whether tools are called only on connections that the engine has judged.
    guarded: AtomicBool,
    /// The slots of calls whose answers are awaited after their deadlines.
    pub(crate) overtime: Arc<Semaphore>,
}

impl SharedContext {
    /// Cleans a server's message: removes the secrets that were presented to the server, and the members of `_meta` that only Servanda may
    /// write.
    pub(crate) fn sanitize(&self, message: &Bytes) -> Bytes {
        let clean = self.redaction.clean(message);
        shape::without_own_meta(&clean).map_or(clean, Bytes::from)
    }

    pub(crate) fn new(
        spec: UpstreamSpec,
        notebook: Arc<dyn Notebook>,
        sources: Vec<Arc<dyn CredentialSource>>,
    ) -> Self {
        Self {
            credentials: Credentials::new(sources),
            redaction: Arc::new(Redaction::for_transport(&spec.transport)),
            tasks: TaskTracker::new(),
            end_pace: EndPace::default(),
            announcement_bus: AnnouncementBus::default(),
            protocol_warnings: ProtocolWarnings::default(),
            attached: AttachedSinks::default(),
            watches: UpstreamWatches::new(spec.limits.watches_max),
            era_notes: EraNotes::new(&spec.transport, notebook),
            known_eras: KnownEras::default(),
            asks_beside_requests: AtomicBool::new(false),
            endpoint: OnceLock::new(),
            in_process: None,
            last_id: AtomicI64::new(0),
            last_edition: AtomicU64::new(0),
            guarded: AtomicBool::new(false),
            overtime: Arc::new(Semaphore::new(spec.limits.late_answers_max.min(Semaphore::MAX_PERMITS))),
            spec,
        }
    }

    /// The same for an HTTP server in this process.
    pub(crate) fn reached_in_process(self, listener: InProcessListener) -> Self {
        Self { in_process: Some(listener), ..self }
    }

    /// Whether every user has their own connections.
    pub(crate) fn is_personal(&self) -> bool {
        self.credentials.as_ref().is_some_and(Credentials::is_personal)
    }

    /// The number for a new connection.
    pub(crate) fn next_edition(&self) -> u64 {
        self.last_edition.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sets whether tools are called only on connections that the engine has judged.
    pub(crate) fn guard(&self, guarded: bool) {
        self.guarded.store(guarded, Ordering::Release);
    }

    pub(crate) fn is_guarded(&self) -> bool {
        self.guarded.load(Ordering::Acquire)
    }

    /// A request id that this upstream never used before, so that an answer from a former connection matches no request.
    pub(crate) fn next_id(&self) -> i64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The address of an HTTP server; none for stdio. Fails if the configured address is not valid.
    pub(crate) fn endpoint(&self) -> Result<Option<&HttpEndpoint>, String> {
        let Transport::Http { url, headers } = &self.spec.transport else { return Ok(None) };
        let make = || HttpEndpoint::new(url, headers, &self.spec.limits, self.in_process.clone());
        let endpoint = self.endpoint.get_or_init(make);
        endpoint.as_ref().map(Some).map_err(Clone::clone)
    }

    /// Whether one server holds several sessions, so that another connection needs no further process.
    pub(crate) fn has_sessions(&self) -> bool {
        matches!(self.spec.transport, Transport::Http { .. })
    }

    /// Whether it may be unclear for which of two requests on one connection the server asks: always on standard streams, and over HTTP
    /// once the server has asked outside the streams of its requests.
    pub(crate) fn may_ask_unclearly(&self) -> bool {
        matches!(self.spec.transport, Transport::Stdio { .. }) || self.asks_beside_requests.load(Ordering::Relaxed)
    }

    pub(crate) fn announce(&self, announcement: Announcement) {
        self.announcement_bus.announce(announcement);
    }

    /// The credentials for a request that serves a connection itself; none if there are no sources.
    pub(crate) async fn connection_credentials(
        &self,
        whose: Option<&UpstreamRequester>,
    ) -> Result<Option<RedactedCredentials>, MissingCredential> {
        let Some(credentials) = &self.credentials else { return Ok(None) };
        let deadline = Instant::now() + Duration::from_millis(self.spec.limits.connect_ms_max);
        credentials.present(&self.redaction, &self.credential_request(whose, deadline)).await.map(Some)
    }

    /// The same as header fields.
    pub(crate) async fn connection_headers(
        &self,
        whose: Option<&UpstreamRequester>,
    ) -> Result<HeaderMap, MissingCredential> {
        let held = self.connection_credentials(whose).await?;
        held.map_or_else(|| Ok(HeaderMap::new()), |held| header_map(&held.presented.headers))
    }

    /// A credential request for a request that serves a connection itself.
    pub(crate) fn credential_request(&self, whose: Option<&UpstreamRequester>, deadline: Instant) -> CredentialRequest {
        let behalf = whose.and_then(|whose| whose.on_behalf_of.as_ref());
        CredentialRequest {
            upstream: self.spec.id.clone(),
            on_behalf_of: behalf.map(RequestUser::caller),
            authority: behalf.and_then(RequestUser::authority),
            call: None,
            deadline,
        }
    }
}
