//! The handle of one upstream: everything that the gateway asks of a server, in one place. The connections own the bytes and the server's
//! lifetime; the dispatch makes requests on them.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use servanda_contract::{Digest, digest::DigestDomain, tool::EffectClass};
use servanda_effects::{Notebook, PortFuture};
use servanda_gates::Fenced;
use servanda_mcp::{Era, envelope::code, fields::method};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Announcement, Answer, CredentialCall, CredentialSource, LateAnswerSender, PerformFailure, RequestOptions,
    ServerMessageSink, ToolList, UpstreamError, UpstreamInquiry, UpstreamName, UpstreamOffer, UpstreamOutcome,
    UpstreamRequester, UpstreamSpec, UpstreamStatus,
    connection::{
        ConnectionResourceWatch, UpstreamConnection,
        link::Link,
        listening,
        pool::{ConnectionPool, LeasePurpose},
    },
    dispatch::{DispatchOutcome, RequestDraft, UpstreamConnections},
    eras::Eras,
    http_client::InProcessListener,
    request::{WireRequestTerms, message, overtime::Overtime},
    shared::{SharedContext, watches::WatchSubject},
    tool_list::ToolListBuilder,
};

/// One configured MCP server. Clones share the connections. When the last clone is dropped, the server is ended.
#[derive(Clone)]
pub struct Upstream(Arc<UpstreamInner>);

struct UpstreamInner {
    connections: UpstreamConnections,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// A call that no longer needs its evidence.
struct OwnedCall {
    tool: String,
    arguments: Bytes,
    effect: EffectClass,
    call: Option<CredentialCall>,
}

impl Upstream {
    /// Creates a handle. Nothing is started before it is needed. Must be called within a tokio runtime. Facts about the server that are
    /// worth knowing after a restart go into the notebook.
    pub fn new(spec: UpstreamSpec, notebook: Arc<dyn Notebook>) -> Self {
        Self::with_credentials(spec, notebook, Vec::new())
    }

    /// The same for a server that is shown the credentials of these sources.
    pub fn with_credentials(
        spec: UpstreamSpec,
        notebook: Arc<dyn Notebook>,
        sources: Vec<Arc<dyn CredentialSource>>,
    ) -> Self {
        Self::with_context(SharedContext::new(spec, notebook, sources))
    }

    /// The same for an HTTP server in this process, which accepts connections from `listener`; nothing goes over a socket.
    pub fn in_process(spec: UpstreamSpec, notebook: Arc<dyn Notebook>, listener: InProcessListener) -> Self {
        Self::with_context(SharedContext::new(spec, notebook, Vec::new()).reached_in_process(listener))
    }

    fn with_context(context: SharedContext) -> Self {
        let (context, stop) = (Arc::new(context), CancellationToken::new());
        let base = UpstreamConnection::new(&context, None, stop.child_token());
        let pool = ConnectionPool::new(Arc::clone(&context), stop.clone());
        let connections = UpstreamConnections { context, base, pool };
        Self(Arc::new(UpstreamInner { connections, _stop_when_dropped: stop.clone().drop_guard(), stop }))
    }

    /// Whether the server is shown credentials from a source.
    pub fn is_shown_credentials(&self) -> bool {
        self.context().credentials.is_some()
    }

    /// Whether each user has credentials of their own, so that users do not share connections.
    pub fn is_personal(&self) -> bool {
        self.context().is_personal()
    }

    /// How it is configured.
    pub fn spec(&self) -> &UpstreamSpec {
        &self.context().spec
    }

    /// Its name in the configuration.
    pub fn id(&self) -> &UpstreamName {
        &self.context().spec.id
    }

    /// Everything the server offers to this requester, all pages. Connects if needed. Each page may take `connect_ms_max`.
    ///
    /// Cancel safe: nothing but the list is lost.
    pub fn tools<'a>(&'a self, requester: &'a UpstreamRequester) -> PortFuture<'a, Result<ToolList, UpstreamError>> {
        Box::pin(async move {
            let limits = &self.context().spec.limits;
            let mut gathering = ToolListBuilder::new(limits.clone());
            let mut cursor: Option<String> = None;
            let mut editions = BTreeSet::new();
            loop {
                let deadline = Instant::now() + Duration::from_millis(limits.connect_ms_max);
                let options = RequestOptions { requester: requester.clone(), ..RequestOptions::for_gateway(deadline) };
                let page = self.deliver(&RequestDraft::page(method::TOOLS_LIST, cursor.as_deref()), options).await;
                editions.extend(page.edition);
                cursor = gathering.add_page(&page.outcome?.result)?;
                if cursor.is_none() {
                    let edition = editions.pop_first().filter(|_| editions.is_empty());
                    let mut list = gathering.finish();
                    if let Some(credentials) = &self.context().credentials {
                        list.tools.iter_mut().for_each(|tool| credentials.hide(tool));
                    }
                    return Ok(ToolList { edition, ..list });
                }
            }
        })
    }

    /// Performs a fenced call.
    ///
    /// Not cancel safe: a call that was sent and is then dropped may still be executed, and its result is lost. Run it in a task of its own
    /// and cancel through [`RequestOptions::cancel`].
    pub fn perform(&self, fenced: Fenced, mut options: RequestOptions) -> PortFuture<'_, UpstreamOutcome> {
        Box::pin(async move {
            let started = Instant::now();
            let called = if fenced.upstream() == self.id().as_str() {
                let (tool, arguments) = (fenced.upstream_tool(), fenced.arguments());
                let draft = RequestDraft::call(tool, arguments, fenced.effect_class());
                let call = self.context().credentials.as_ref().map(|_| CredentialCall {
                    call_id: fenced.call_id().clone(),
                    tool: tool.to_owned(),
                    arguments: Digest::compute(DigestDomain::Arguments, &[arguments]),
                    effect: fenced.effect_class(),
                    requirements: options.requirements.clone(),
                });
                match options.late.take().filter(|_| fenced.effect_class().mutates()) {
                    Some(late) => {
                        let (effect, arguments) = (fenced.effect_class(), arguments.clone());
                        let owned = OwnedCall { tool: tool.to_owned(), arguments, effect, call };
                        self.call_with_overtime(owned, options, late).await
                    }
                    None => self.deliver(&draft.with_call(call), options).await,
                }
            } else {
                let why = format!("the call is for `{}`, this is `{}`", fenced.upstream(), self.id());
                DispatchOutcome { sent: false, outcome: Err(PerformFailure::Unavailable { why }), edition: None }
            };
            let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            UpstreamOutcome { fenced, sent: called.sent, took_us, outcome: called.outcome }
        })
    }

    /// Makes a request that is not a tool call. Connects if needed.
    ///
    /// Cancel safe: only the answer is lost.
    pub fn ask(
        &self,
        question: UpstreamInquiry,
        options: RequestOptions,
    ) -> PortFuture<'_, Result<Answer, PerformFailure>> {
        Box::pin(async move { self.deliver(&RequestDraft::inquiry(&question), options).await.outcome })
    }

    /// What the server says outside any request. A receiver that lags behind loses the oldest announcements.
    pub fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.context().announcement_bus.announcements()
    }

    /// What the server says about itself; connects if needed. A server of both eras is asked in the modern one.
    pub fn offer(&self, deadline: Instant) -> PortFuture<'_, Result<UpstreamOffer, PerformFailure>> {
        Box::pin(async move {
            let link = match self.base_link(deadline).await {
                Ok(link) => link,
                // The server speaks the same era to every user, so any user's connection can tell.
                Err(failure) => self.0.connections.pool.any_ready().ok_or(failure)?,
            };
            Ok(offer_on(&link))
        })
    }

    /// What the server says about itself to this requester. A server of both eras is asked in the requester's era.
    ///
    /// Cancel safe: nothing but the offer is lost.
    pub fn offer_to<'a>(
        &'a self,
        requester: &'a UpstreamRequester,
        deadline: Instant,
    ) -> PortFuture<'a, Result<UpstreamOffer, PerformFailure>> {
        Box::pin(async move {
            let offer = self.offer(deadline).await?;
            let keeps_era = offer.era == Era::Modern && requester.era == Era::Legacy;
            if !keeps_era || self.0.connections.connection_requester(requester).is_none() {
                return Ok(offer);
            }
            self.0.connections.link(requester, deadline).await.map(|link| offer_on(&link))
        })
    }

    /// Watches a resource for changes. The watch survives reconnections and ends with [`Upstream::unwatch`].
    ///
    /// Refused if users have connections of their own: the shared connection is the gateway's, and users must not learn what changes for
    /// the gateway.
    ///
    /// Cancel safe: a watch that is not awaited to the end is not kept.
    pub fn watch<'a>(&'a self, uri: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        Box::pin(async move { self.watch_subject(WatchSubject::Resource(uri.to_owned()), deadline).await })
    }

    /// Stops watching a resource.
    pub fn unwatch(&self, uri: &str) {
        let subject = WatchSubject::Resource(uri.to_owned());
        if self.context().watches.unwatch(&subject) {
            self.unsubscribe(subject);
        }
    }

    /// Watches a resource for changes on the requester's own connection. None if the requester has no such connection or the server is also
    /// modern; [`Upstream::watch`] applies then.
    ///
    /// Cancel safe: a watch that is not awaited to the end stops with the connection.
    pub fn watch_on_own_connection<'a>(
        &'a self,
        requester: &'a UpstreamRequester,
        uri: &'a str,
        deadline: Instant,
    ) -> PortFuture<'a, Result<Option<ConnectionResourceWatch>, PerformFailure>> {
        Box::pin(async move {
            let users_own = self.0.connections.is_personal_to(requester);
            let shares = !requester.capabilities.answers_anything() && !users_own;
            if shares || self.offer(deadline).await.is_ok_and(|offer| offer.era == Era::Modern) {
                return Ok(None);
            }
            let lease = self.0.connections.pool.lease(requester, LeasePurpose::Gateway)?;
            ConnectionResourceWatch::start(self.context(), requester, lease, uri, deadline).await.map(Some)
        })
    }

    /// Watches a task of a modern server for changes, until [`Upstream::unwatch_task`].
    ///
    /// Legacy servers announce changes unasked, on the connection that began the task.
    ///
    /// Cancel safe: a watch that is not awaited to the end is not kept.
    pub fn watch_task<'a>(&'a self, task_id: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        Box::pin(async move {
            let link = self.base_link(deadline).await?;
            match link.peer.era() {
                Era::Legacy => Ok(()),
                Era::Modern if !link.peer.announces.tasks => Err(not_announced("tasks")),
                Era::Modern => self.watch_subject(WatchSubject::Task(task_id.to_owned()), deadline).await,
            }
        })
    }

    /// Stops watching a task.
    pub fn unwatch_task(&self, task_id: &str) {
        self.context().watches.unwatch(&WatchSubject::Task(task_id.to_owned()));
    }

    /// Sets where server messages go that belong to no request of this affinity: questions and log lines that a legacy server sends between
    /// requests. Without it such questions are declined.
    pub fn attach(&self, affinity: &str, session_sink: Arc<dyn ServerMessageSink>) {
        if !self.context().attached.attach(affinity, session_sink) {
            tracing::warn!(upstream = %self.id(), "too many clients listen to messages outside requests; this one gets none");
        }
    }

    /// Sends a notification to a legacy server on this requester's connection, if there is one.
    pub fn notify(&self, requester: &UpstreamRequester, method: &'static str, params: Option<Box<RawValue>>) {
        let link = self.0.connections.ready_link(requester);
        if let Some(link) = link.filter(|link| link.peer.era() == Era::Legacy) {
            link.notify_if_room(message::client_notification(method, params));
        }
    }

    /// Ends what is kept for an affinity: its connections, and where its server messages go.
    pub fn release(&self, affinity: &str) {
        self.context().attached.detach(affinity);
        self.0.connections.pool.release(affinity);
    }

    /// Counts up whenever the tool list may have changed: the server announced it, or a new connection was made.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.context().announcement_bus.changes()
    }

    /// The unique number of the connection that this requester's next request will use; none while there is no such connection.
    pub fn edition(&self, requester: &UpstreamRequester) -> Option<u64> {
        self.0.connections.ready_link(requester).map(|link| link.edition)
    }

    /// Whether this requester's requests use a connection of its own, as far as is known. A legacy server may offer something else on each.
    pub fn has_own_connection(&self, requester: &UpstreamRequester) -> bool {
        self.0.connections.has_own(requester)
    }

    /// The requester that the server knows this one by, as far as is known: itself if it has its own connection, the legacy clients' shared
    /// requester at a server of both eras, or the gateway on the connection that all share.
    pub fn connection_requester(&self, requester: &UpstreamRequester) -> UpstreamRequester {
        self.0.connections.connection_requester(requester).unwrap_or_else(UpstreamRequester::gateway)
    }

    /// Whether legacy clients may get an offer of their own: the server has their era, or has not been asked for it yet.
    pub fn may_have_legacy_era(&self) -> bool {
        self.context().known_eras.get() != Some(Eras::ModernOnly)
    }

    /// The era that the server speaks on the shared connection, if it is known.
    pub fn known_era(&self) -> Option<Era> {
        self.context().known_eras.get().map(Eras::shared)
    }

    /// Sets whether tools may be called on a connection only after [`Upstream::set_judged`] allowed it. Off at first.
    pub fn require_judged(&self, guarded: bool) {
        self.context().guard(guarded);
    }

    /// Sets whether tools may be called on this requester's present connection, if it has that edition.
    pub fn set_judged(&self, requester: &UpstreamRequester, edition: u64, judged: bool) {
        if let Some(link) = self.0.connections.ready_link(requester).filter(|link| link.edition == edition) {
            link.set_judged(judged);
        }
    }

    /// The state of the shared connection.
    pub fn status(&self) -> UpstreamStatus {
        self.0.connections.base.status()
    }

    /// Ends the connections and the server behind them, and waits until they have ended. Later calls fail as unavailable.
    ///
    /// Cancel safe: the shutdown continues when the future is dropped.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.context().tasks.close();
        self.context().tasks.wait().await;
    }

    /// The same for a gateway that has to end by then: servers get less time to end by themselves. The time is not guaranteed to the
    /// caller, who stops waiting or calls [`Upstream::hurry`].
    ///
    /// Cancel safe: the shutdown continues when the future is dropped.
    pub async fn shutdown_by(&self, by: Instant) {
        self.context().end_pace.end_by(by);
        self.shutdown().await;
    }

    /// From now on the servers' processes are killed instead of being asked to end.
    pub fn hurry(&self) {
        self.context().end_pace.hurry();
    }

    /// Calls a tool like `perform`, without the evidence that it is allowed.
    #[cfg(test)]
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &Bytes,
        effect: EffectClass,
        mut options: RequestOptions,
    ) -> DispatchOutcome {
        if let Some(late) = options.late.take() {
            let owned = OwnedCall { tool: tool.to_owned(), arguments: arguments.clone(), effect, call: None };
            return self.call_with_overtime(owned, options, late).await;
        }
        self.deliver(&RequestDraft::call(tool, arguments, effect), options).await
    }

    async fn deliver(&self, draft: &RequestDraft<'_>, options: RequestOptions) -> DispatchOutcome {
        Box::pin(self.0.connections.deliver(draft, options, None)).await
    }

    /// Makes a call in a task of its own, which continues after the deadline: an answer that comes then goes to `late`.
    async fn call_with_overtime(
        &self,
        owned: OwnedCall,
        options: RequestOptions,
        late: LateAnswerSender,
    ) -> DispatchOutcome {
        let (context, upstream) = (self.context(), self.clone());
        let overtime = Overtime::new(&context.overtime, &context.spec.limits);
        let goes_on = Arc::clone(&overtime);
        let (told, mut in_time) = tokio::sync::oneshot::channel();
        context.tasks.spawn(async move {
            let draft = RequestDraft::call(&owned.tool, &owned.arguments, owned.effect).with_call(owned.call);
            let called = Box::pin(upstream.0.connections.deliver(&draft, options, Some(&goes_on))).await;
            // The waiting caller is told once: the result, or that the deadline passed.
            if goes_on.has_begun() {
                let _ = late.send(called.outcome);
            } else {
                let _ = told.send(called);
            }
        });
        tokio::select! {
            biased;
            called = &mut in_time => called.unwrap_or_else(|_| {
                let given_up = || PerformFailure::Died { why: "the call was given up".to_owned() };
                // The late answer may arrive before this task notices that the deadline has passed.
                let failure = overtime.failure().unwrap_or_else(given_up);
                DispatchOutcome { sent: true, outcome: Err(failure), edition: None }
            }),
            failure = overtime.begun() => DispatchOutcome { sent: true, outcome: Err(failure), edition: None },
        }
    }

    async fn base_link(&self, deadline: Instant) -> Result<Arc<Link>, PerformFailure> {
        self.0.connections.base.link(deadline, &CancellationToken::new()).await
    }

    async fn watch_subject(&self, subject: WatchSubject, deadline: Instant) -> Result<(), PerformFailure> {
        let context = self.context();
        if context.is_personal() {
            return Err(not_announced("data that belongs to a single user"));
        }
        let turn = tokio::time::timeout_at(deadline, context.watches.change_lock.lock()).await;
        let _turn =
            turn.map_err(|_| PerformFailure::unavailable("other watches were being set up until the deadline"))?;
        let wish = context.watches.watch(subject.clone())?;
        let link = self.base_link(deadline).await?;
        match link.peer.era() {
            Era::Legacy => {
                let uri = ("uri".to_owned(), to_raw_value(subject.key()).map_err(|_| not_announced("this"))?);
                let question = UpstreamInquiry { method: method::RESOURCES_SUBSCRIBE, name: None, params: vec![uri] };
                self.ask(question, RequestOptions::for_gateway(deadline)).await?;
            }
            Era::Modern => {
                let granted = context.watches.wait_for_outcome(wish.revision, deadline).await?;
                if !granted.includes(&subject) {
                    return Err(not_announced("this"));
                }
            }
        }
        wish.keep();
        Ok(())
    }

    /// Tells a legacy server; the subscription of a modern one changes by itself.
    fn unsubscribe(&self, subject: WatchSubject) {
        let Some(link) = self.0.connections.base.ready().filter(|link| link.peer.era() == Era::Legacy) else { return };
        let context = Arc::clone(self.context());
        self.context().tasks.spawn(async move {
            // Under the lock, so that a new watch of the same subject is not unsubscribed by this one.
            let _turn = context.watches.change_lock.lock().await;
            if context.watches.is_watched(&subject) {
                return;
            }
            let deadline = Instant::now() + Duration::from_millis(context.spec.limits.connect_ms_max);
            let (uri, terms) =
                (subject.key(), WireRequestTerms { tell_server: true, ..WireRequestTerms::until(deadline) });
            let _ = Box::pin(listening::subscribe(&context, &link, method::RESOURCES_UNSUBSCRIBE, uri, terms)).await;
        });
    }

    fn context(&self) -> &Arc<SharedContext> {
        &self.0.connections.context
    }
}

fn offer_on(link: &Link) -> UpstreamOffer {
    UpstreamOffer { era: link.peer.era(), capabilities: Arc::clone(&link.peer.capabilities) }
}

fn not_announced(what: &str) -> PerformFailure {
    PerformFailure::Rejected {
        code: code::METHOD_NOT_FOUND,
        message: format!("the server does not announce changes of {what}"),
        data: None,
        era: Era::Modern,
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Upstream").field("id", self.id()).field("status", &self.status()).finish()
    }
}

#[cfg(test)]
impl Upstream {
    /// How many connections belong to one requester, and how many tasks there are in all.
    pub(crate) fn census(&self) -> (usize, usize) {
        (self.0.connections.pool.len(), self.context().tasks.len())
    }
}
