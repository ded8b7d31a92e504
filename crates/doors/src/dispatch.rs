//! Answers each method, the same way over every transport. The transports decide which messages they accept, and how
//! answers travel.

use std::{borrow::Cow, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;
use servanda_engine::{CallRequest, Gateway, Inquiry, InquirySubject, JUDGED_AT_ONCE_BYTES_MAX, Requester};
use servanda_mcp::{ClientCapabilities, Era, Id, ProtocolVersion, capabilities::TASKS_EXTENSION, fields::method};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use crate::{
    client,
    fault::ProtocolFault,
    in_flight::ClientRequestEntry,
    limits::DispatchLimits,
    listen::{self, ListenRequest},
    page::{self, ListResultMeta},
    params::{self, Params, require_short},
    request::{DoorRequest, DoorRequestContext},
    request_channels::RequestChannels,
    running_request::{AnswerRenderer, EngineRequest, RunningRequest, RunningRequestSlots},
    server_info::{self, RenderedServerInfo, ServerIdentity},
    session::{LegacyClientSession, TooManyWatches},
    slots::{CallerSlot, CallerSlots, NoCallerSlot},
};

/// The part of a door that is the same for every transport.
#[derive(Debug)]
pub(crate) struct MethodDispatcher<G> {
    pub(crate) gateway: Arc<G>,
    pub(crate) server_info: Arc<RenderedServerInfo>,
    limits: DispatchLimits,
    requests: Arc<CallerSlots>,
    /// The multi-threaded runtime that the door was created on, if it was one.
    shared_runtime: Option<Handle>,
}

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum DispatchReply {
    /// At once, with this result.
    Result(String),
    /// At once, and a legacy session begins.
    Initialize(Box<ClientInitialization>),
    /// Later, with this result; no messages go out before it.
    Deferred(DeferredResult),
    /// Later; messages may go out before the answer.
    Running(Box<RunningRequest>),
    /// When the subscription ends.
    Listen(Box<ListenRequest>),
}

/// A client that begins a session.
#[derive(Debug)]
pub(crate) struct ClientInitialization {
    /// The result of `initialize`.
    pub(crate) result: String,
    pub(crate) client: Option<String>,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) version: ProtocolVersion,
}

/// An answer that is not there at once.
pub(crate) struct DeferredResult {
    pub(crate) work: Pin<Box<dyn Future<Output = Result<String, ProtocolFault>> + Send>>,
    /// Whether the request changes the session, so that its stored note must be written again.
    pub(crate) changes_session: bool,
    /// Its place among all requests, held until the answer is out.
    pub(crate) slot: CallerSlot,
}

impl<G: Gateway> MethodDispatcher<G> {
    pub(crate) fn new(gateway: Arc<G>, server: &ServerIdentity, limits: DispatchLimits) -> Self {
        let requests = CallerSlots::new(limits.requests_in_flight_max);
        let is_shared = |runtime: &Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let shared = Handle::try_current().ok().filter(is_shared);
        Self {
            gateway,
            server_info: Arc::new(RenderedServerInfo::new(server)),
            limits,
            requests,
            shared_runtime: shared,
        }
    }

    /// Answers a request whose era is decided and which the transport accepts. Must be called in a runtime: it may
    /// spawn work.
    pub(crate) fn answer(
        &self,
        request: &DoorRequest<'_>,
        context: DoorRequestContext,
    ) -> Result<DispatchReply, ProtocolFault> {
        if context.in_flight.as_ref().is_some_and(|in_flight| in_flight.contains(request.id)) {
            return Err(duplicate_id());
        }
        match (request.era, request.method.as_ref()) {
            (_, method::TOOLS_CALL) => self.call(request, context),
            (_, method::TOOLS_LIST) => self.list(request, context),
            (Era::Legacy, method::PING) => Ok(DispatchReply::Result("{}".to_owned())),
            (Era::Legacy, method::INITIALIZE) => self.initialize(request),
            (Era::Legacy, method::LOGGING_SET_LEVEL) => self.set_log_level(request, context),
            (Era::Legacy, method::RESOURCES_SUBSCRIBE) => self.subscribe(request, context),
            (Era::Legacy, method::RESOURCES_UNSUBSCRIBE) => {
                let ((session, requester), uri) = (context.into_session()?, uri(request)?);
                let slot = self.take_slot(&requester)?;
                session.unwatch(&uri);
                Ok(DispatchReply::Deferred(DeferredResult::changing_session(slot, async { Ok("{}".to_owned()) })))
            }
            (Era::Modern, method::DISCOVER) => Ok(DispatchReply::Result(self.server_info.discover.clone())),
            (Era::Modern, method::SUBSCRIPTIONS_LISTEN) => {
                let listen_request =
                    ListenRequest::parse(request.id, &request.params, context.requester, &self.limits)?;
                Ok(DispatchReply::Listen(Box::new(listen_request)))
            }
            (era, other) => match InquirySubject::from_method(other).filter(|subject| era_has_subject(era, *subject)) {
                Some(subject) => self.inquire(subject, request, context),
                None => Err(ProtocolFault::method_not_found(era, other)),
            },
        }
    }

    /// Refuses oversized capabilities, because they are kept with every session and with what is cached for them.
    pub(crate) fn require_bounded_capabilities(&self, capabilities: Option<&RawValue>) -> Result<(), ProtocolFault> {
        let bytes_max = self.limits.capabilities_bytes_max;
        match capabilities {
            Some(raw) if raw.get().len() > bytes_max => {
                let message = format!("the client's capabilities have more than {bytes_max} bytes");
                Err(ProtocolFault::invalid_params(message)
                    .hint("declare only what the protocol and its extensions name"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn initialize(&self, request: &DoorRequest<'_>) -> Result<DispatchReply, ProtocolFault> {
        self.require_bounded_capabilities(request.params.capabilities)?;
        let requested = request.params.protocol_version.and_then(params::text);
        let requested = requested.ok_or_else(|| ProtocolFault::invalid_params("`protocolVersion` must be a string"))?;
        let version = server_info::negotiated_version(&requested);
        Ok(DispatchReply::Initialize(Box::new(ClientInitialization {
            result: self.server_info.initialize(version),
            client: client::client_name(request.params.client_info),
            capabilities: ClientCapabilities::parse(request.params.capabilities),
            version,
        })))
    }

    fn list(&self, request: &DoorRequest<'_>, context: DoorRequestContext) -> Result<DispatchReply, ProtocolFault> {
        let after = page::parse_cursor(request.params.cursor)?;
        let slot = self.take_slot(&context.requester)?;
        let (gateway, server_info) = (Arc::clone(&self.gateway), Arc::clone(&self.server_info));
        let (era, page_size) = (request.era, self.limits.page_size);
        let list = async move {
            let listing = gateway.listing(&context.requester).await;
            let frame = ListResultMeta { era, meta_member: &server_info.meta_member };
            Ok(page::page(&listing, after.as_ref(), page_size, &frame))
        };
        let Some(runtime) = self.runtime_for_long() else {
            return Ok(DispatchReply::Deferred(DeferredResult::new(slot, list)));
        };
        // Filtering thousands of tools for this requester may take long, so it runs on the other runtime.
        let listed = runtime.spawn(list);
        Ok(DispatchReply::Deferred(DeferredResult::new(slot, async {
            listed.await.unwrap_or_else(|_| Err(ProtocolFault::internal("the tool list could not be built")))
        })))
    }

    fn set_log_level(
        &self,
        request: &DoorRequest<'_>,
        context: DoorRequestContext,
    ) -> Result<DispatchReply, ProtocolFault> {
        let level = params::log_level(request.params.level, "level")?;
        let (session, requester) = context.into_session()?;
        let slot = self.take_slot(&requester)?;
        let gateway = Arc::clone(&self.gateway);
        Ok(DispatchReply::Deferred(DeferredResult::changing_session(slot, async move {
            let set = gateway.set_log_level(&requester, level.as_str()).await;
            set.map_err(|error| ProtocolFault::from_rpc_error(Era::Legacy, error))?;
            session.set_log_level(level);
            Ok("{}".to_owned())
        })))
    }

    fn subscribe(
        &self,
        request: &DoorRequest<'_>,
        context: DoorRequestContext,
    ) -> Result<DispatchReply, ProtocolFault> {
        let ((session, requester), uri) = (context.into_session()?, uri(request)?);
        let slot = self.take_slot(&requester)?;
        require_short(&uri, "uri", self.limits.uri_bytes_max)?;
        let new = session.prepare_watch(&uri).map_err(|TooManyWatches| {
            ProtocolFault::busy(
                "the session watches too many resources",
                "unsubscribe from one that you no longer need",
            )
        })?;
        if !new {
            return Ok(DispatchReply::Result("{}".to_owned()));
        }
        let gateway = Arc::clone(&self.gateway);
        Ok(DispatchReply::Deferred(DeferredResult::changing_session(slot, async move {
            let room = WatchSlot { session: &session, uri: &uri };
            let watch = gateway.watch(&requester, &uri).await;
            room.fill(watch.map_err(|error| ProtocolFault::from_rpc_error(Era::Legacy, error))?);
            Ok("{}".to_owned())
        })))
    }

    fn call(&self, request: &DoorRequest<'_>, mut context: DoorRequestContext) -> Result<DispatchReply, ProtocolFault> {
        let DoorRequest { params, meta, .. } = request;
        let tool = params.name.and_then(params::text);
        let tool = tool.ok_or_else(|| ProtocolFault::invalid_params("`name` must be a string"))?.into_owned();
        let chain = meta.chain()?;
        let keys = meta.keys(request.idempotency_key.clone())?;
        let aims = meta.aims()?;
        let channels = RequestChannels::for_request(request, &mut context.session)?;
        // Upholds: `slice_ref` panics on bytes from elsewhere; `params` borrows from `source`.
        let arguments = params.arguments.map_or_else(Bytes::new, |raw| request.source.slice_ref(raw.get().as_bytes()));
        let task = match request.era {
            Era::Legacy => params.task.map(ToOwned::to_owned),
            // In the modern era the server decides what becomes a task.
            Era::Modern => None,
        };
        self.start(request, context, channels, |requester, terms| {
            EngineRequest::Call(Box::new(CallRequest { requester, tool, arguments, chain, keys, aims, task, terms }))
        })
    }

    fn inquire(
        &self,
        subject: InquirySubject,
        request: &DoorRequest<'_>,
        mut context: DoorRequestContext,
    ) -> Result<DispatchReply, ProtocolFault> {
        let is_task = matches!(subject, InquirySubject::Task | InquirySubject::TaskUpdate | InquirySubject::TaskCancel);
        if is_task && request.era == Era::Modern && !context.requester.capabilities.has_extension(TASKS_EXTENSION) {
            return Err(listen::missing_tasks_extension());
        }
        require_named(subject, &request.params)?;
        let params = request.params.inquiry_members()?;
        let channels = RequestChannels::for_request(request, &mut context.session)?;
        if channels.terms.dry_run {
            return Err(ProtocolFault::invalid_params("`_meta[\"servanda/dry-run\"]` is for `tools/call` only"));
        }
        self.start(request, context, channels, |requester, terms| {
            EngineRequest::Inquiry(Box::new(Inquiry { requester, subject, params, terms }))
        })
    }

    fn start(
        &self,
        request: &DoorRequest<'_>,
        context: DoorRequestContext,
        channels: RequestChannels,
        engine_request: impl FnOnce(Requester, servanda_engine::RequestTerms) -> EngineRequest,
    ) -> Result<DispatchReply, ProtocolFault> {
        let slot = self.take_slot(&context.requester)?;
        let RequestChannels { terms, client_messages, relay, session } = channels;
        let entry = enter(&context, request.id, &terms.cancel)?;
        let server_info = Arc::clone(&self.server_info);
        let renderer = AnswerRenderer { id: request.id.clone(), era: request.era, server_info, session };
        let engine_request = engine_request(context.requester, terms);
        let slots = RunningRequestSlots { slot, entry };
        let gateway = Arc::clone(&self.gateway);
        let apart = self.runtime_for(&engine_request);
        let mut running = RunningRequest::new(
            gateway,
            engine_request,
            slots,
            renderer,
            (client_messages, relay),
            context.disconnect_policy,
        );
        if let Some(runtime) = apart {
            running.spawn_on(runtime);
        }
        Ok(DispatchReply::Running(Box::new(running)))
    }

    /// The runtime on which an engine request has to run apart from this thread, if it has to.
    fn runtime_for(&self, engine_request: &EngineRequest) -> Option<&Handle> {
        let is_large =
            matches!(engine_request, EngineRequest::Call(call) if call.arguments.len() > JUDGED_AT_ONCE_BYTES_MAX);
        if is_large { self.runtime_for_long() } else { None }
    }

    /// Where to run work that keeps a thread busy for long, so that it holds up no other connection of this thread.
    /// `None` on a multi-threaded runtime: its other threads keep serving connections.
    fn runtime_for_long(&self) -> Option<&Handle> {
        self.shared_runtime.as_ref().filter(|_| Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread)
    }

    fn take_slot(&self, requester: &Requester) -> Result<CallerSlot, ProtocolFault> {
        let hint = "send the request again in a moment; nothing has been done";
        self.requests.take(&requester.authority).map_err(|no_place| match no_place {
            NoCallerSlot::AllTaken => ProtocolFault::busy("too many requests are running", hint),
            NoCallerSlot::ShareTaken => ProtocolFault::busy("too many of your requests are running", hint),
        })
    }
}

impl DeferredResult {
    fn new(slot: CallerSlot, work: impl Future<Output = Result<String, ProtocolFault>> + Send + 'static) -> Self {
        Self { work: Box::pin(work), changes_session: false, slot }
    }

    fn changing_session(
        slot: CallerSlot,
        work: impl Future<Output = Result<String, ProtocolFault>> + Send + 'static,
    ) -> Self {
        Self { changes_session: true, ..Self::new(slot, work) }
    }
}

impl std::fmt::Debug for DeferredResult {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DeferredResult").field("changes_session", &self.changes_session).finish_non_exhaustive()
    }
}

/// A reserved place for a watch. Given back on drop unless it is filled, so also when the request is dropped.
struct WatchSlot<'a> {
    session: &'a LegacyClientSession,
    uri: &'a str,
}

impl WatchSlot<'_> {
    fn fill(self, watch: servanda_engine::ResourceWatchGuard) {
        self.session.keep_watch(self.uri, Some(watch));
        std::mem::forget(self);
    }
}

impl Drop for WatchSlot<'_> {
    fn drop(&mut self) {
        self.session.keep_watch(self.uri, None);
    }
}

/// Whether an era has the subject's method.
const fn era_has_subject(era: Era, subject: InquirySubject) -> bool {
    match subject {
        InquirySubject::TaskUpdate => matches!(era, Era::Modern),
        InquirySubject::TaskResult | InquirySubject::Tasks => matches!(era, Era::Legacy),
        InquirySubject::Resources
        | InquirySubject::ResourceTemplates
        | InquirySubject::Resource
        | InquirySubject::Prompts
        | InquirySubject::Prompt
        | InquirySubject::Completion
        | InquirySubject::Task
        | InquirySubject::TaskCancel => true,
    }
}

/// Refuses an inquiry about one prompt, resource or task that does not name it.
fn require_named(subject: InquirySubject, params: &Params<'_>) -> Result<(), ProtocolFault> {
    let (member, name) = match subject {
        InquirySubject::Prompt => (params.name, "name"),
        InquirySubject::Resource => (params.uri, "uri"),
        InquirySubject::Task | InquirySubject::TaskUpdate | InquirySubject::TaskCancel | InquirySubject::TaskResult => {
            (params.task_id, "taskId")
        }
        InquirySubject::Resources
        | InquirySubject::ResourceTemplates
        | InquirySubject::Prompts
        | InquirySubject::Completion
        | InquirySubject::Tasks => {
            return Ok(());
        }
    };
    let text = member.and_then(params::text);
    text.map(drop).ok_or_else(|| ProtocolFault::invalid_params(format!("`{name}` must be a string")))
}

fn uri(request: &DoorRequest<'_>) -> Result<String, ProtocolFault> {
    let uri = request.params.uri.and_then(params::text).map(Cow::into_owned);
    uri.ok_or_else(|| ProtocolFault::invalid_params("`uri` must be a string"))
}

fn enter(
    context: &DoorRequestContext,
    id: &Id,
    cancel: &CancellationToken,
) -> Result<Option<ClientRequestEntry>, ProtocolFault> {
    match &context.in_flight {
        Some(in_flight) => in_flight.enter(id, cancel).map(Some).ok_or_else(duplicate_id),
        None => Ok(None),
    }
}

/// The request's id belongs to a request that is still unanswered.
pub(crate) fn duplicate_id() -> ProtocolFault {
    ProtocolFault::invalid_request(StatusCode::BAD_REQUEST, "a request with this id is still running")
        .hint("use each id only once per session")
}
