//! What each method answers, the same over every transport. Which messages a transport accepts, and how answers travel,
//! is decided before and after.

use std::{borrow::Cow, sync::Arc};

use axum::http::StatusCode;
use bytes::Bytes;
use servanda_engine::{CallRequest, Gateway, Terms};
use servanda_mcp::{Era, Id, fields::method};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    call::{Asker, PROGRESS_QUEUE_MAX, Progress, RunningCall},
    client,
    fault::Fault,
    greeting::Greeting,
    in_flight::InFlight,
    listen::Subscription,
    options::ServerIdentity,
    page::{self, Frame},
    params::{self, Meta, Params},
};

/// The part of a door that no transport changes.
#[derive(Debug)]
pub(crate) struct Desk<G> {
    pub(crate) gateway: Arc<G>,
    greeting: Arc<Greeting>,
    page_size: usize,
    calls: Arc<Semaphore>,
}

/// A request of a known era, its members still raw.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) id: &'a Id,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Params<'a>,
    pub(crate) meta: Meta<'a>,
    pub(crate) era: Era,
    /// The bytes all of it was read from, which arguments share.
    // INVARIANT: `params` borrows from here.
    pub(crate) source: &'a Bytes,
    /// The transport's own trace context, for a request without one.
    pub(crate) trace_parent: Option<&'a str>,
}

/// Whose request it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    pub(crate) client: Option<String>,
    pub(crate) session: Option<String>,
    /// Where ids can be cancelled: not on modern HTTP, where every request stands alone.
    pub(crate) in_flight: Option<Arc<InFlight>>,
}

/// How a request is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// At once, with this result.
    Result(String),
    /// At once, and a legacy session begins.
    Welcome {
        /// The result.
        result: String,
        /// Who it is for.
        client: Option<String>,
    },
    /// When the call is done.
    Call(Box<RunningCall>),
    /// When the subscription ends.
    Listen(Subscription),
}

impl<G: Gateway> Desk<G> {
    pub(crate) fn new(gateway: Arc<G>, server: &ServerIdentity, page_size: usize, calls_in_flight_max: usize) -> Self {
        let calls = calls_in_flight_max.min(Semaphore::MAX_PERMITS);
        Self { gateway, greeting: Arc::new(Greeting::new(server)), page_size, calls: Arc::new(Semaphore::new(calls)) }
    }

    /// Answers a request whose era has been decided and whose transport has no objections. It must run in a runtime:
    /// calls are spawned.
    pub(crate) async fn answer(&self, request: &Request<'_>, peer: &Peer) -> Result<Reply, Fault> {
        if peer.in_flight.as_ref().is_some_and(|in_flight| in_flight.contains(request.id)) {
            return Err(duplicate_id());
        }
        match (request.era, request.method.as_ref()) {
            (_, method::TOOLS_CALL) => self.call(request, peer).map(|call| Reply::Call(Box::new(call))),
            (_, method::TOOLS_LIST) => {
                let frame = Frame { era: request.era, meta_member: &self.greeting.meta_member };
                let listing = self.gateway.listing(&client::guest(peer, request)).await;
                page::page(&listing, request.params.cursor, self.page_size, &frame).map(Reply::Result)
            }
            (Era::Legacy, method::PING) => Ok(Reply::Result("{}".to_owned())),
            (Era::Legacy, method::INITIALIZE) => {
                let requested = request.params.protocol_version.and_then(params::text);
                let requested = requested.ok_or_else(|| Fault::invalid_params("`protocolVersion` must be a string"))?;
                let client = client::client_name(request.params.client_info);
                Ok(Reply::Welcome { result: self.greeting.initialize(&requested), client })
            }
            (Era::Modern, method::DISCOVER) => Ok(Reply::Result(self.greeting.discover.clone())),
            (Era::Modern, method::SUBSCRIPTIONS_LISTEN) => {
                Subscription::grant(request.id, &request.params, &self.greeting.meta_member).map(Reply::Listen)
            }
            (era, other) => Err(Fault::method_not_found(era, other)),
        }
    }

    fn call(&self, request: &Request<'_>, peer: &Peer) -> Result<RunningCall, Fault> {
        let Request { params, meta, .. } = request;
        let tool = params.name.and_then(params::text);
        let tool = tool.ok_or_else(|| Fault::invalid_params("`name` must be a string"))?.into_owned();
        let caller_wait_ms = meta.caller_wait_ms()?;
        let chain = meta.chain()?;
        let token = meta.progress_token()?;
        let trace_parent = meta.trace_parent().or_else(|| request.trace_parent.and_then(params::trace_parent));

        let permit = Arc::clone(&self.calls).try_acquire_owned().map_err(|_| too_many_calls())?;
        let cancel = CancellationToken::new();
        let entry = match &peer.in_flight {
            Some(in_flight) => Some(in_flight.enter(request.id, &cancel).ok_or_else(duplicate_id)?),
            None => None,
        };
        let (sender, progress) = match token {
            Some(token) => {
                let (sender, notes) = mpsc::channel(PROGRESS_QUEUE_MAX);
                (Some(sender), Some(Progress { token: token.to_owned(), notes }))
            }
            None => (None, None),
        };
        // Upholds: `slice_ref` panics on bytes from elsewhere; `params` borrows from `source`.
        let arguments = params.arguments.map_or_else(Bytes::new, |raw| request.source.slice_ref(raw.get().as_bytes()));
        let wants_progress = sender.is_some();
        let terms = Terms { caller_wait_ms, trace_parent, wants_progress, remarks: sender, cancel, ..Terms::default() };
        let call = CallRequest { guest: client::guest(peer, request), tool, arguments, chain, task: None, terms };
        let greeting = Arc::clone(&self.greeting);
        let asker = Asker { id: request.id.clone(), era: request.era, greeting, progress, entry };
        Ok(RunningCall::start(Arc::clone(&self.gateway), call, permit, asker))
    }
}

/// An id that is already waiting for its answer.
pub(crate) fn duplicate_id() -> Fault {
    Fault::invalid_request(StatusCode::BAD_REQUEST, "a request with this id is not answered yet")
        .hint("use an id once per session")
}

fn too_many_calls() -> Fault {
    Fault::busy("too many calls are running", "send the call again in a moment; nothing has been done")
}
