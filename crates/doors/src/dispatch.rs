//! What each method answers, the same over every transport. Which messages a transport accepts, and how answers travel,
//! is decided before and after.

use std::{borrow::Cow, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use serde_json::value::RawValue;
use servanda_engine::{CallRequest, Gateway, Guest, Inquiry, JUDGED_AT_ONCE_BYTES_MAX, Subject};
use servanda_mcp::{ClientCapabilities, Era, Id, ProtocolVersion, capabilities::TASKS_EXTENSION, fields::method};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio_util::sync::CancellationToken;

use crate::{
    client,
    fault::Fault,
    greeting::{self, Greeting, ServerIdentity},
    in_flight::Entry,
    limits::DeskLimits,
    listen::{self, Wanted},
    page::{self, Frame},
    params::{self, Params, require_short},
    places::{NoPlace, Place, Places},
    request::{Peer, Request},
    running::{Asker, Errand, Held, Running},
    session::{Session, TooManyWatches},
    terms::Arrangement,
};

/// The part of a door that no transport changes.
#[derive(Debug)]
pub(crate) struct Desk<G> {
    pub(crate) gateway: Arc<G>,
    pub(crate) greeting: Arc<Greeting>,
    limits: DeskLimits,
    requests: Arc<Places>,
    /// The runtime of several threads that the door was made on, if it was.
    shared: Option<Handle>,
}

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// At once, with this result.
    Result(String),
    /// At once, and a legacy session begins.
    Welcome(Box<Welcome>),
    /// When somebody else has been asked, with nothing to say on the way.
    Soon(Soon),
    /// When it is done.
    Running(Box<Running>),
    /// When the subscription ends.
    Listen(Box<Wanted>),
}

/// A client that begins a session.
#[derive(Debug)]
pub(crate) struct Welcome {
    /// What it is answered.
    pub(crate) result: String,
    pub(crate) client: Option<String>,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) version: ProtocolVersion,
}

/// An answer that takes a moment.
pub(crate) struct Soon {
    pub(crate) work: Pin<Box<dyn Future<Output = Result<String, Fault>> + Send>>,
    /// Whether the session is another afterwards, and what is kept of it has to be written down again.
    pub(crate) changes_session: bool,
    /// Its place among all requests, to be held until the answer is out.
    pub(crate) permit: Place,
}

impl<G: Gateway> Desk<G> {
    pub(crate) fn new(gateway: Arc<G>, server: &ServerIdentity, limits: DeskLimits) -> Self {
        let requests = Places::new(limits.requests_in_flight_max);
        let is_shared = |runtime: &Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        let shared = Handle::try_current().ok().filter(is_shared);
        Self { gateway, greeting: Arc::new(Greeting::new(server)), limits, requests, shared }
    }

    /// Answers a request whose era has been decided and whose transport has no objections. It must run in a runtime:
    /// work may be spawned.
    pub(crate) fn answer(&self, request: &Request<'_>, peer: Peer) -> Result<Reply, Fault> {
        if peer.in_flight.as_ref().is_some_and(|in_flight| in_flight.contains(request.id)) {
            return Err(duplicate_id());
        }
        match (request.era, request.method.as_ref()) {
            (_, method::TOOLS_CALL) => self.call(request, peer),
            (_, method::TOOLS_LIST) => self.list(request, peer),
            (Era::Legacy, method::PING) => Ok(Reply::Result("{}".to_owned())),
            (Era::Legacy, method::INITIALIZE) => self.initialize(request),
            (Era::Legacy, method::LOGGING_SET_LEVEL) => self.set_log_level(request, peer),
            (Era::Legacy, method::RESOURCES_SUBSCRIBE) => self.subscribe(request, peer),
            (Era::Legacy, method::RESOURCES_UNSUBSCRIBE) => {
                let ((session, guest), uri) = (peer.into_session()?, uri(request)?);
                let permit = self.permit(&guest)?;
                session.unwatch(&uri);
                Ok(Reply::Soon(Soon::changing(permit, async { Ok("{}".to_owned()) })))
            }
            (Era::Modern, method::DISCOVER) => Ok(Reply::Result(self.greeting.discover.clone())),
            (Era::Modern, method::SUBSCRIPTIONS_LISTEN) => {
                let wanted = Wanted::parse(request.id, &request.params, peer.guest, &self.limits)?;
                Ok(Reply::Listen(Box::new(wanted)))
            }
            (era, other) => match Subject::of(other).filter(|subject| is_of(era, *subject)) {
                Some(subject) => self.inquire(subject, request, peer),
                None => Err(Fault::method_not_found(era, other)),
            },
        }
    }

    /// Refuses capabilities that nobody could want to keep: they are, with every session, and with what is known for them.
    pub(crate) fn require_modest(&self, capabilities: Option<&RawValue>) -> Result<(), Fault> {
        let bytes_max = self.limits.capabilities_bytes_max;
        match capabilities {
            Some(raw) if raw.get().len() > bytes_max => {
                let message = format!("the client's capabilities have more than {bytes_max} bytes");
                Err(Fault::invalid_params(message).hint("declare only what the protocol and its extensions name"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn initialize(&self, request: &Request<'_>) -> Result<Reply, Fault> {
        self.require_modest(request.params.capabilities)?;
        let requested = request.params.protocol_version.and_then(params::text);
        let requested = requested.ok_or_else(|| Fault::invalid_params("`protocolVersion` must be a string"))?;
        let version = greeting::negotiated(&requested);
        Ok(Reply::Welcome(Box::new(Welcome {
            result: self.greeting.initialize(version),
            client: client::client_name(request.params.client_info),
            capabilities: ClientCapabilities::parse(request.params.capabilities),
            version,
        })))
    }

    fn list(&self, request: &Request<'_>, peer: Peer) -> Result<Reply, Fault> {
        let after = page::after(request.params.cursor)?;
        let permit = self.permit(&peer.guest)?;
        let (gateway, greeting) = (Arc::clone(&self.gateway), Arc::clone(&self.greeting));
        let (era, page_size) = (request.era, self.limits.page_size);
        let list = async move {
            let listing = gateway.listing(&peer.guest).await;
            let frame = Frame { era, meta_member: &greeting.meta_member };
            Ok(page::page(&listing, after.as_ref(), page_size, &frame))
        };
        let Some(runtime) = self.runtime_for_long() else { return Ok(Reply::Soon(Soon::new(permit, list))) };
        // What a guest is shown of thousands of tools may have to be worked out first.
        let listed = runtime.spawn(list);
        Ok(Reply::Soon(Soon::new(permit, async {
            listed.await.unwrap_or_else(|_| Err(Fault::internal("the list could not be made")))
        })))
    }

    fn set_log_level(&self, request: &Request<'_>, peer: Peer) -> Result<Reply, Fault> {
        let level = params::log_level(request.params.level, "level")?;
        let (session, guest) = peer.into_session()?;
        let permit = self.permit(&guest)?;
        let gateway = Arc::clone(&self.gateway);
        Ok(Reply::Soon(Soon::changing(permit, async move {
            let set = gateway.set_log_level(&guest, level.as_str()).await;
            set.map_err(|error| Fault::answered(Era::Legacy, error))?;
            session.set_log_level(level);
            Ok("{}".to_owned())
        })))
    }

    fn subscribe(&self, request: &Request<'_>, peer: Peer) -> Result<Reply, Fault> {
        let ((session, guest), uri) = (peer.into_session()?, uri(request)?);
        let permit = self.permit(&guest)?;
        require_short(&uri, "uri", self.limits.uri_bytes_max)?;
        let new = session.prepare_watch(&uri).map_err(|TooManyWatches| {
            Fault::busy("the session watches too many resources", "unsubscribe from one that is not needed any more")
        })?;
        if !new {
            return Ok(Reply::Result("{}".to_owned()));
        }
        let gateway = Arc::clone(&self.gateway);
        Ok(Reply::Soon(Soon::changing(permit, async move {
            let room = WatchRoom { session: &session, uri: &uri };
            let watch = gateway.watch(&guest, &uri).await;
            room.fill(watch.map_err(|error| Fault::answered(Era::Legacy, error))?);
            Ok("{}".to_owned())
        })))
    }

    fn call(&self, request: &Request<'_>, mut peer: Peer) -> Result<Reply, Fault> {
        let Request { params, meta, .. } = request;
        let tool = params.name.and_then(params::text);
        let tool = tool.ok_or_else(|| Fault::invalid_params("`name` must be a string"))?.into_owned();
        let chain = meta.chain()?;
        let keys = meta.keys(request.idempotency_key.clone())?;
        let aims = meta.aims()?;
        let arrangement = Arrangement::of(request, &mut peer.session)?;
        // Upholds: `slice_ref` panics on bytes from elsewhere; `params` borrows from `source`.
        let arguments = params.arguments.map_or_else(Bytes::new, |raw| request.source.slice_ref(raw.get().as_bytes()));
        let task = match request.era {
            Era::Legacy => params.task.map(ToOwned::to_owned),
            // In the modern era it is the server who decides what becomes a task.
            Era::Modern => None,
        };
        self.start(request, peer, arrangement, |guest, terms| {
            Errand::Call(Box::new(CallRequest { guest, tool, arguments, chain, keys, aims, task, terms }))
        })
    }

    fn inquire(&self, subject: Subject, request: &Request<'_>, mut peer: Peer) -> Result<Reply, Fault> {
        let is_task = matches!(subject, Subject::Task | Subject::TaskUpdate | Subject::TaskCancel);
        if is_task && request.era == Era::Modern && !peer.guest.capabilities.extends(TASKS_EXTENSION) {
            return Err(listen::missing_tasks_extension());
        }
        require_named(subject, &request.params)?;
        let params = request.params.asked()?;
        let arrangement = Arrangement::of(request, &mut peer.session)?;
        self.start(request, peer, arrangement, |guest, terms| {
            Errand::Inquiry(Box::new(Inquiry { guest, subject, params, terms }))
        })
    }

    fn start(
        &self,
        request: &Request<'_>,
        peer: Peer,
        arrangement: Arrangement,
        errand: impl FnOnce(Guest, servanda_engine::Terms) -> Errand,
    ) -> Result<Reply, Fault> {
        let permit = self.permit(&peer.guest)?;
        let Arrangement { terms, remarks, relay, session } = arrangement;
        let entry = enter(&peer, request.id, &terms.cancel)?;
        let greeting = Arc::clone(&self.greeting);
        let asker = Asker { id: request.id.clone(), era: request.era, greeting, session };
        let errand = errand(peer.guest, terms);
        let held = Held { permit, entry };
        let gateway = Arc::clone(&self.gateway);
        let apart = self.runtime_for(&errand);
        let mut running = Running::new(gateway, errand, held, asker, (remarks, relay), peer.departure);
        if let Some(runtime) = apart {
            running.go_apart(runtime);
        }
        Ok(Reply::Running(Box::new(running)))
    }

    /// The runtime on which an errand has to be done apart, if there is one.
    fn runtime_for(&self, errand: &Errand) -> Option<&Handle> {
        let is_large = matches!(errand, Errand::Call(call) if call.arguments.len() > JUDGED_AT_ONCE_BYTES_MAX);
        if is_large { self.runtime_for_long() } else { None }
    }

    /// Where to do what takes long without waiting for anything, so that it holds up no other connection of this thread. None if this
    /// is no thread that serves connections alone: on a runtime of several threads the others go on.
    fn runtime_for_long(&self) -> Option<&Handle> {
        self.shared.as_ref().filter(|_| Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread)
    }

    fn permit(&self, guest: &Guest) -> Result<Place, Fault> {
        let hint = "send the request again in a moment; nothing has been done";
        self.requests.take(&guest.authority).map_err(|no_place| match no_place {
            NoPlace::AllTaken => Fault::busy("too many requests are running", hint),
            NoPlace::HasItsShare => Fault::busy("too many of your requests are running", hint),
        })
    }
}

impl Soon {
    fn new(permit: Place, work: impl Future<Output = Result<String, Fault>> + Send + 'static) -> Self {
        Self { work: Box::pin(work), changes_session: false, permit }
    }

    fn changing(permit: Place, work: impl Future<Output = Result<String, Fault>> + Send + 'static) -> Self {
        Self { changes_session: true, ..Self::new(permit, work) }
    }
}

impl std::fmt::Debug for Soon {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Soon").field("changes_session", &self.changes_session).finish_non_exhaustive()
    }
}

/// Room that was made for a watch; given back unless it is filled, also when the request is given up.
struct WatchRoom<'a> {
    session: &'a Session,
    uri: &'a str,
}

impl WatchRoom<'_> {
    fn fill(self, watch: servanda_engine::Watch) {
        self.session.keep_watch(self.uri, Some(watch));
        std::mem::forget(self);
    }
}

impl Drop for WatchRoom<'_> {
    fn drop(&mut self) {
        self.session.keep_watch(self.uri, None);
    }
}

/// Whether an era has the method of a subject.
const fn is_of(era: Era, subject: Subject) -> bool {
    match subject {
        Subject::TaskUpdate => matches!(era, Era::Modern),
        Subject::TaskResult | Subject::Tasks => matches!(era, Era::Legacy),
        Subject::Resources
        | Subject::ResourceTemplates
        | Subject::Resource
        | Subject::Prompts
        | Subject::Prompt
        | Subject::Completion
        | Subject::Task
        | Subject::TaskCancel => true,
    }
}

/// Refuses an inquiry about one prompt, resource or task that does not say which.
fn require_named(subject: Subject, params: &Params<'_>) -> Result<(), Fault> {
    let (member, name) = match subject {
        Subject::Prompt => (params.name, "name"),
        Subject::Resource => (params.uri, "uri"),
        Subject::Task | Subject::TaskUpdate | Subject::TaskCancel | Subject::TaskResult => (params.task_id, "taskId"),
        Subject::Resources | Subject::ResourceTemplates | Subject::Prompts | Subject::Completion | Subject::Tasks => {
            return Ok(());
        }
    };
    let text = member.and_then(params::text);
    text.map(drop).ok_or_else(|| Fault::invalid_params(format!("`{name}` must be a string")))
}

fn uri(request: &Request<'_>) -> Result<String, Fault> {
    let uri = request.params.uri.and_then(params::text).map(Cow::into_owned);
    uri.ok_or_else(|| Fault::invalid_params("`uri` must be a string"))
}

fn enter(peer: &Peer, id: &Id, cancel: &CancellationToken) -> Result<Option<Entry>, Fault> {
    match &peer.in_flight {
        Some(in_flight) => in_flight.enter(id, cancel).map(Some).ok_or_else(duplicate_id),
        None => Ok(None),
    }
}

/// An id that is already waiting for its answer.
pub(crate) fn duplicate_id() -> Fault {
    Fault::invalid_request(StatusCode::BAD_REQUEST, "a request with this id is not answered yet")
        .hint("use an id once per session")
}
