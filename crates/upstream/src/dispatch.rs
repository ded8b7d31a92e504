//! Makes one request: finds the right connection, writes the request in that connection's era, and tries a second connection if the first
//! one did not take it.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_contract::tool::EffectClass;
use servanda_mcp::{Era, envelope::RequestBody, fields::method};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    Answer, CredentialCall, CredentialRequest, PerformFailure, RequestOptions, UpstreamInquiry, UpstreamRequester,
    connection::{
        UpstreamConnection,
        link::{Link, Wire},
        pool::{ConnectionLease, ConnectionPool, LeasePurpose},
    },
    eras::{ConnectionChoice, EraClient},
    request::{
        CancellationMode, ExchangeEnd, WireRequest, WireRequestTerms,
        audience::{CallerSink, RequestAudience},
        message::meta_of,
        overtime::Overtime,
        pausable_deadline::PausableDeadline,
    },
    shared::SharedContext,
};

/// How many connections a request may try. At most one of them takes a request that may change something.
const CONNECTIONS_MAX: usize = 2;

/// How often the choice of the connection may change: once when the server's eras become known, and once when the server rejects the legacy
/// handshake.
const CONNECTION_CHOICES_MAX: usize = 3;

/// How a request ended, without the evidence that it was allowed.
#[derive(Debug)]
pub(crate) struct DispatchOutcome {
    pub(crate) sent: bool,
    pub(crate) outcome: Result<Answer, PerformFailure>,
    /// The connection that took it.
    pub(crate) edition: Option<u64>,
}

/// A request whose connection is not chosen yet.
#[derive(Debug)]
pub(crate) struct RequestDraft<'a> {
    method: &'static str,
    /// The tool, prompt, URI or task that it is about, for the modern header.
    name: Option<&'a str>,
    /// The members of `params` without `_meta`.
    members: Vec<(&'a str, ParamValue<'a>)>,
    /// Whether it may change something. Such a request is sent once, and its answer is read to the end even when it is cancelled.
    mutates: bool,
    /// The call, if the request is one that passed the gates.
    call: Option<CredentialCall>,
}

/// The value of a member.
#[derive(Debug, Clone, Copy)]
enum ParamValue<'a> {
    /// JSON as it is.
    Raw(&'a [u8]),
    /// A string that is encoded as JSON.
    Text(&'a str),
}

/// All connections of one upstream.
#[derive(Debug)]
pub(crate) struct UpstreamConnections {
    pub(crate) context: Arc<SharedContext>,
    /// The shared connection.
    pub(crate) base: UpstreamConnection,
    /// The connections that belong to one requester each.
    pub(crate) pool: Arc<ConnectionPool>,
}

/// The connection that one request uses.
struct LeasedLink {
    link: Arc<Link>,
    _lease: Option<ConnectionLease>,
}

impl ParamValue<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Raw(json) => json.len(),
            Self::Text(text) => text.len() + 2,
        }
    }
}

impl<'a> RequestDraft<'a> {
    /// A tool call. The arguments must be JSON.
    pub(crate) fn call(tool: &'a str, arguments: &'a Bytes, effect: EffectClass) -> Self {
        let arguments: &[u8] = if arguments.is_empty() { b"{}" } else { arguments };
        let members = vec![("name", ParamValue::Text(tool)), ("arguments", ParamValue::Raw(arguments))];
        Self { method: method::TOOLS_CALL, name: Some(tool), members, mutates: effect.mutates(), call: None }
    }

    /// Adds what a credential source may know about the call.
    pub(crate) fn with_call(self, call: Option<CredentialCall>) -> Self {
        Self { call, ..self }
    }

    /// Any other request.
    pub(crate) fn inquiry(question: &'a UpstreamInquiry) -> Self {
        let members = question.params.iter();
        let members = members.map(|(name, value)| (name.as_str(), ParamValue::Raw(value.get().as_bytes()))).collect();
        let mutates = matches!(question.method, method::TASKS_UPDATE | method::TASKS_CANCEL);
        Self { method: question.method, name: question.name.as_deref(), members, mutates, call: None }
    }

    /// A page of a list.
    pub(crate) fn page(method: &'static str, cursor: Option<&'a str>) -> Self {
        let cursor = cursor.map(|cursor| ("cursor", ParamValue::Text(cursor)));
        Self { method, name: None, members: cursor.into_iter().collect(), mutates: false, call: None }
    }

    /// Whether the request contains nothing from a client, so that nothing the server asks or says in confidence relates to it.
    fn is_gateway_request(&self) -> bool {
        matches!(
            self.method,
            method::TOOLS_LIST
                | method::PROMPTS_LIST
                | method::RESOURCES_LIST
                | method::RESOURCE_TEMPLATES_LIST
                | method::RESOURCES_SUBSCRIBE
                | method::RESOURCES_UNSUBSCRIBE
                | method::LOGGING_SET_LEVEL
        )
    }

    /// The body, and where the arguments of a tool call are in it.
    fn body(&self, id: i64, era: Era, options: &RequestOptions) -> (Vec<u8>, Option<Range<usize>>) {
        let bytes_expected = self.members.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut body = RequestBody::new(id, self.method, bytes_expected);
        let mut arguments = None;
        for (name, value) in &self.members {
            let place = match value {
                ParamValue::Raw(json) => body.add(name, json),
                ParamValue::Text(text) => body.add_text(name, text),
            };
            arguments = Some(place).filter(|_| self.method == method::TOOLS_CALL && *name == "arguments").or(arguments);
        }
        let mut add = |name: &str, value: Option<&RawValue>| {
            if let Some(value) = value {
                body.add(name, value.get().as_bytes());
            }
        };
        match era {
            Era::Legacy if self.method == method::TOOLS_CALL => add("task", options.task.as_deref()),
            Era::Legacy => {}
            Era::Modern => {
                add("inputResponses", options.continuation.input_responses.as_deref());
                if let Some(state) = &options.continuation.request_state {
                    body.add_text("requestState", state);
                }
            }
        }
        (body.finish(meta_of(id, era, options).as_deref()), arguments)
    }
}

impl UpstreamConnections {
    /// Makes a request with these options and reports how it ended.
    pub(crate) async fn deliver(
        &self,
        draft: &RequestDraft<'_>,
        options: RequestOptions,
        overtime: Option<&Arc<Overtime>>,
    ) -> DispatchOutcome {
        let pausable_deadline = PausableDeadline::until(options.deadline);
        let mut sent = false;
        let mut not_taken = None;
        for _ in 0..CONNECTIONS_MAX {
            let leased = match self.lease(draft, &options).await {
                Ok(leased) => leased,
                Err(failure) => return DispatchOutcome { sent, outcome: Err(failure), edition: None },
            };
            let link = &leased.link;
            // A restarted server may be another one, so what was listed on the former connection does not count.
            if draft.method == method::TOOLS_CALL && self.context.is_guarded() && !link.is_judged() {
                let why =
                    "its tools were not listed on this connection, so it is unknown what a call would do; list them";
                return DispatchOutcome { sent, outcome: Err(PerformFailure::unavailable(why)), edition: None };
            }
            // Without the key, a repeated request would have a second effect.
            if options.key_header.is_some() && !matches!(link.wire, Wire::Http(_)) {
                let why = "its connection carries no headers, and the key that makes a repeat safe is sent in one";
                return DispatchOutcome { sent, outcome: Err(PerformFailure::unavailable(why)), edition: None };
            }
            let id = self.context.next_id();
            let era = link.peer.era();
            let params: &[_] = if draft.method == method::TOOLS_CALL { &options.param_headers } else { &[] };
            let (body, arguments) = draft.body(id, era, &options);
            let request = WireRequest::new(id, draft.method, Some(link.peer.version), body)
                .with_name(draft.name, params)
                .with_key_header(options.key_header.as_ref())
                .with_trace_parent(options.trace_parent.as_deref());
            let request =
                WireRequest { arguments, credential_request: self.credential_request(draft, &options), ..request };
            let terms =
                WireRequestTerms { overtime: overtime.cloned(), ..terms(draft, &options, pausable_deadline.clone()) };
            let ended = link.exchange(request, terms).await;
            let again = match &ended {
                ExchangeEnd::NeverLeft { .. } => true,
                // A server can execute a call and then disown the session; the gateway could not tell.
                ExchangeEnd::Disowned(_) => !draft.mutates,
                ExchangeEnd::Answered(_) | ExchangeEnd::Failed(_) | ExchangeEnd::NotLetIn { .. } => false,
            };
            if again {
                sent |= matches!(ended, ExchangeEnd::Disowned(_));
                await_loss(link, options.deadline, &options.cancel).await;
                not_taken = Some(ended);
                continue;
            }
            let outcome = ended.outcome();
            sent |= outcome.as_ref().err().is_none_or(PerformFailure::sent);
            let outcome = outcome.map(|result| Answer { result, era });
            return DispatchOutcome { sent, outcome, edition: Some(link.edition) };
        }
        let failure = not_taken.and_then(|ended| ended.outcome().err());
        let outcome = Err(failure.unwrap_or_else(|| PerformFailure::unavailable("no connection took the request")));
        DispatchOutcome { sent, outcome, edition: None }
    }

    /// The request to the credential sources; none when the upstream has no sources.
    fn credential_request(&self, draft: &RequestDraft<'_>, options: &RequestOptions) -> Option<CredentialRequest> {
        self.context.credentials.as_ref()?;
        let credential_request = self.context.credential_request(Some(&options.requester), options.deadline);
        Some(CredentialRequest { call: draft.call.clone(), ..credential_request })
    }

    /// The connection that this requester's next request will use, if it exists already.
    pub(crate) fn ready_link(&self, requester: &UpstreamRequester) -> Option<Arc<Link>> {
        match self.connection_requester(requester) {
            Some(own) => self.pool.get(&own)?.ready(),
            None => self.base.ready(),
        }
    }

    /// Whether this requester's requests are known to use a connection of its own.
    pub(crate) fn has_own(&self, requester: &UpstreamRequester) -> bool {
        self.connection_requester(requester).is_some_and(|own| !own.is_shared())
    }

    /// The requester that the connection belongs to, if it is not the shared connection. None if it is the shared one, or if the server's
    /// eras are not known yet.
    pub(crate) fn connection_requester(&self, requester: &UpstreamRequester) -> Option<UpstreamRequester> {
        if self.is_personal_to(requester) {
            return Some(requester.clone());
        }
        let client = EraClient { era: requester.era, answers: can_be_asked(requester) };
        let place = match self.context.known_eras.get() {
            Some(eras) => eras.choose_connection(client, self.context.has_sessions()),
            // The eras are not known at the moment, but the requester's existing connection works.
            None if client.answers && self.pool.get(requester).is_some_and(|own| own.ready().is_some()) => {
                ConnectionChoice::Own
            }
            None => ConnectionChoice::Shared,
        };
        match place {
            ConnectionChoice::Shared => None,
            ConnectionChoice::SharedByLegacy => {
                Some(UpstreamRequester { era: Era::Legacy, ..UpstreamRequester::gateway() })
            }
            ConnectionChoice::Own => Some(requester.clone()),
        }
    }

    /// Whether the server is shown credentials that are this requester's alone, so that no other requester may use the connection.
    pub(crate) fn is_personal_to(&self, requester: &UpstreamRequester) -> bool {
        requester.on_behalf_of.is_some() && self.context.is_personal()
    }

    /// The connection for this requester's requests, for the gateway's own use. Cancel safe.
    pub(crate) async fn link(
        &self,
        requester: &UpstreamRequester,
        deadline: Instant,
    ) -> Result<Arc<Link>, PerformFailure> {
        let lasting = CancellationToken::new();
        self.lease_of(requester, LeasePurpose::Gateway, deadline, &lasting).await.map(|leased| leased.link)
    }

    /// The connection for this requester's requests. Cancel safe.
    async fn lease(&self, draft: &RequestDraft<'_>, options: &RequestOptions) -> Result<LeasedLink, PerformFailure> {
        let RequestOptions { requester, deadline, cancel, .. } = options;
        let purpose = if draft.is_gateway_request() { LeasePurpose::Gateway } else { LeasePurpose::Client };
        self.lease_of(requester, purpose, *deadline, cancel).await
    }

    async fn lease_of(
        &self,
        requester: &UpstreamRequester,
        purpose: LeasePurpose,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<LeasedLink, PerformFailure> {
        let mut turned_away = None;
        for _ in 0..CONNECTION_CHOICES_MAX {
            let Some(own) = self.connection_requester(requester) else {
                let link = self.base.link(deadline, cancel).await?;
                // The server's eras become known on the shared connection. They may say that this requester needs another one.
                if self.connection_requester(requester).is_none() {
                    return Ok(LeasedLink { link, _lease: None });
                }
                continue;
            };
            let lease = self.pool.lease(&own, purpose)?;
            match lease.connection.link(deadline, cancel).await {
                Ok(link) => return Ok(LeasedLink { link, _lease: Some(lease) }),
                // A server that turns out to have only the modern era is asked on the shared connection.
                Err(failure) if self.connection_requester(requester).as_ref() == Some(&own) => return Err(failure),
                Err(failure) => turned_away = Some(failure),
            }
        }
        Err(turned_away.unwrap_or_else(|| PerformFailure::unavailable("its protocol eras kept changing")))
    }
}

/// Whether the server may ask this requester's client something. The common empty declaration is recognized without parsing it.
fn can_be_asked(requester: &UpstreamRequester) -> bool {
    requester.capabilities.as_json() != "{}" && requester.capabilities.answers_anything()
}

fn terms(draft: &RequestDraft<'_>, options: &RequestOptions, pausable_deadline: PausableDeadline) -> WireRequestTerms {
    let caller = options.server_messages.clone().map(|sink| {
        let wants_log = options.log_level.is_some();
        CallerSink { sink: Arc::new(sink), wants_progress: options.wants_progress, wants_log }
    });
    WireRequestTerms {
        pausable_deadline,
        cancel: options.cancel.clone(),
        when_cancelled: if draft.mutates && draft.method == method::TOOLS_CALL {
            CancellationMode::ReadOn
        } else {
            CancellationMode::Abandon
        },
        audience: match caller {
            Some(caller) => RequestAudience::Caller(caller),
            None if draft.is_gateway_request() => RequestAudience::Nobody,
            None => RequestAudience::Muted { wants_log: options.log_level.is_some() },
        },
        tell_server: true,
        // A request that asks about a task or ends it dispatches no effect.
        lease: options.lease.clone().filter(|_| draft.method == method::TOOLS_CALL),
        behalf: options.requester.on_behalf_of.clone(),
        overtime: None,
    }
}

/// Waits until a connection that did not take a request is gone, so that the next request gets a new one.
async fn await_loss(link: &Link, deadline: Instant, cancel: &CancellationToken) {
    tokio::select! {
        _ = link.loss().reported() => {}
        () = cancel.cancelled() => {}
        () = tokio::time::sleep_until(deadline) => {}
    }
}
