//! The handle of one upstream: what can be wanted of a server, in one place. The connections own the bytes and their lives;
//! the dispatch makes requests on them.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use servanda_contract::{Digest, digest::DigestDomain, tool::EffectClass};
use servanda_effects::Notebook;
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

/// One configured MCP server. Clones share the connections; when the last clone is gone, the server is ended.
#[derive(Clone)]
pub struct Upstream(Arc<UpstreamInner>);

struct UpstreamInner {
    connections: UpstreamConnections,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// A call that does not need its evidence any more to be made.
struct OwnedCall {
    tool: String,
    arguments: Bytes,
    effect: EffectClass,
    call: Option<CredentialCall>,
}

impl Upstream {
    /// A handle; nothing is started before it is needed. Must be called within a tokio runtime. What is learned about the
    /// server and worth knowing after a restart goes into the notebook.
    pub fn new(spec: UpstreamSpec, notebook: Arc<dyn Notebook>) -> Self {
        Self::with_credentials(spec, notebook, Vec::new())
    }

    /// The same for a server that is shown what these sources present.
    pub fn with_credentials(
        spec: UpstreamSpec,
        notebook: Arc<dyn Notebook>,
        sources: Vec<Arc<dyn CredentialSource>>,
    ) -> Self {
        Self::with_context(SharedContext::new(spec, notebook, sources))
    }

    /// The same for an HTTP server in this process, which takes its ends of connections there; nothing goes over a socket.
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

    /// Whether it is shown anything that a source presents.
    pub fn is_shown_credentials(&self) -> bool {
        self.context().credentials.is_some()
    }

    /// Whether that is each user's own, so that users do not share connections.
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

    /// Everything the server says it offers to that requester, all pages. Connects if needed. Each page may take
    /// `connect_ms_max`.
    ///
    /// Cancel safe: nothing but the list is lost.
    pub async fn tools(&self, requester: &UpstreamRequester) -> Result<ToolList, UpstreamError> {
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
    }

    /// Performs a fenced call.
    ///
    /// Not cancel safe: a call that has been sent and is then dropped may still be executed, and nobody learns how it
    /// ended. Run it in a task of its own and cancel through [`Delivery::cancel`].
    pub async fn perform(&self, fenced: Fenced, mut options: RequestOptions) -> UpstreamOutcome {
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
    }

    /// Makes a request that is not a tool call. Connects if needed.
    ///
    /// Cancel safe in the sense that only the answer is lost.
    pub async fn ask(&self, question: UpstreamInquiry, options: RequestOptions) -> Result<Answer, PerformFailure> {
        self.deliver(&RequestDraft::inquiry(&question), options).await.outcome
    }

    /// What a server says outside any request. A receiver that lags loses the oldest.
    pub fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.context().announcement_bus.announcements()
    }

    /// What the server says about itself, once it is connected; connects if needed. A server of both eras says it in the
    /// modern one.
    pub async fn offer(&self, deadline: Instant) -> Result<UpstreamOffer, PerformFailure> {
        let link = match self.base_link(deadline).await {
            Ok(link) => link,
            // Which side of the protocol it speaks is the same for every user.
            Err(failure) => self.0.connections.pool.any_ready().ok_or(failure)?,
        };
        Ok(offer_on(&link))
    }

    /// What the server says about itself to this requester: a server of both eras says it in the requester's.
    ///
    /// Cancel safe: nothing but the offer is lost.
    pub async fn offer_to(
        &self,
        requester: &UpstreamRequester,
        deadline: Instant,
    ) -> Result<UpstreamOffer, PerformFailure> {
        let offer = self.offer(deadline).await?;
        let keeps_era = offer.era == Era::Modern && requester.era == Era::Legacy;
        if !keeps_era || self.0.connections.connection_requester(requester).is_none() {
            return Ok(offer);
        }
        self.0.connections.link(requester, deadline).await.map(|link| offer_on(&link))
    }

    /// Wants to hear when a resource changes. The wish holds over reconnections until [`Upstream::unwatch`].
    ///
    /// Refused where users have connections of their own: the shared one is the gateway's, and what changes for the gateway
    /// is not the users' to hear.
    ///
    /// Cancel safe: a wish that is not waited for is none.
    pub async fn watch(&self, uri: &str, deadline: Instant) -> Result<(), PerformFailure> {
        self.watch_subject(WatchSubject::Resource(uri.to_owned()), deadline).await
    }

    /// Does not want to hear of it any more.
    pub fn unwatch(&self, uri: &str) {
        let subject = WatchSubject::Resource(uri.to_owned());
        if self.context().watches.unwatch(&subject) {
            self.unsubscribe(subject);
        }
    }

    /// Wants to hear when a resource changes, on the requester's own connection; none if it has no such connection or the
    /// server is modern too, and [`Upstream::watch`] is what it needs.
    ///
    /// Cancel safe: a wish that is not waited for ends with the connection.
    pub async fn watch_on_own_connection(
        &self,
        requester: &UpstreamRequester,
        uri: &str,
        deadline: Instant,
    ) -> Result<Option<ConnectionResourceWatch>, PerformFailure> {
        let users_own = self.0.connections.is_personal_to(requester);
        let shares = !requester.capabilities.answers_anything() && !users_own;
        if shares || self.offer(deadline).await.is_ok_and(|offer| offer.era == Era::Modern) {
            return Ok(None);
        }
        let lease = self.0.connections.pool.lease(requester, LeasePurpose::Gateway)?;
        ConnectionResourceWatch::start(self.context(), requester, lease, uri, deadline).await.map(Some)
    }

    /// Wants to hear when a task of a modern server changes. The wish holds until [`Upstream::unwatch_task`].
    ///
    /// Legacy servers say so unasked, on the connection that began the task.
    ///
    /// Cancel safe: a wish that is not waited for is none.
    pub async fn watch_task(&self, task_id: &str, deadline: Instant) -> Result<(), PerformFailure> {
        let link = self.base_link(deadline).await?;
        match link.peer.era() {
            Era::Legacy => Ok(()),
            Era::Modern if !link.peer.announces.tasks => Err(not_announced("tasks")),
            Era::Modern => self.watch_subject(WatchSubject::Task(task_id.to_owned()), deadline).await,
        }
    }

    /// Does not want to hear of it any more.
    pub fn unwatch_task(&self, task_id: &str) {
        self.context().watches.unwatch(&WatchSubject::Task(task_id.to_owned()));
    }

    /// Where server messages go that no request of this affinity can be said to have caused: questions and log lines that a legacy
    /// server sends between requests. Without it such questions are declined.
    pub fn attach(&self, affinity: &str, bystander: Arc<dyn ServerMessageSink>) {
        if !self.context().attached.attach(affinity, bystander) {
            tracing::warn!(upstream = %self.id(), "too many clients listen to remarks outside requests");
        }
    }

    /// Tells a legacy server something on the connection of that requester, if there is one.
    pub fn notify(&self, requester: &UpstreamRequester, method: &'static str, params: Option<Box<RawValue>>) {
        let link = self.0.connections.ready_link(requester);
        if let Some(link) = link.filter(|link| link.peer.era() == Era::Legacy) {
            link.notify_if_room(message::client_notification(method, params));
        }
    }

    /// Ends what was kept for an affinity: its connections and where its server messages go.
    pub fn release(&self, affinity: &str) {
        self.context().attached.detach(affinity);
        self.0.connections.pool.release(affinity);
    }

    /// Counts up whenever the tool list may have changed: the server says so, or a new connection was made.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.context().announcement_bus.changes()
    }

    /// The number of the connection that the next request of this requester is made on, unlike any other's; none while
    /// there is no such connection.
    pub fn edition(&self, requester: &UpstreamRequester) -> Option<u64> {
        self.0.connections.ready_link(requester).map(|link| link.edition)
    }

    /// Whether requests of this requester are made on a connection of its own, as far as is known: a legacy server may
    /// offer something else on each.
    pub fn has_own_connection(&self, requester: &UpstreamRequester) -> bool {
        self.0.connections.has_own(requester)
    }

    /// As whom the server knows this requester, as far as is known: by its own connection, by the one that legacy clients
    /// share at a server of both eras, or as nobody by the one that all share.
    pub fn connection_requester(&self, requester: &UpstreamRequester) -> UpstreamRequester {
        self.0.connections.connection_requester(requester).unwrap_or_else(UpstreamRequester::gateway)
    }

    /// Whether legacy clients may be offered something by themselves: the server has their era, or was not asked for it yet.
    pub fn may_have_legacy_era(&self) -> bool {
        self.context().known_eras.get() != Some(Eras::ModernOnly)
    }

    /// Which side of the protocol the server speaks on the shared connection, if that is known.
    pub fn known_era(&self) -> Option<Era> {
        self.context().known_eras.get().map(Eras::shared)
    }

    /// Says whether no tool is called on a connection before [`Upstream::set_judged`] says that it may be. It is not so at first.
    pub fn require_judged(&self, guarded: bool) {
        self.context().guard(guarded);
    }

    /// Says whether tools may be called on this requester's present connection, if it is the one of that edition.
    pub fn set_judged(&self, requester: &UpstreamRequester, edition: u64, judged: bool) {
        if let Some(link) = self.0.connections.ready_link(requester).filter(|link| link.edition == edition) {
            link.set_judged(judged);
        }
    }

    /// How it is.
    pub fn status(&self) -> UpstreamStatus {
        self.0.connections.base.status()
    }

    /// Ends the connections and the server behind them, and waits for that. Calls made from now on are not available.
    ///
    /// Cancel safe: the end goes on without the waiter.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.context().tasks.close();
        self.context().tasks.wait().await;
    }

    /// The same for a gateway that has to be gone by then: servers get less time to end by themselves. The time is not a promise
    /// to the waiter, who stops waiting or says [`Upstream::hurry`].
    ///
    /// Cancel safe: the end goes on without the waiter.
    pub async fn shutdown_by(&self, by: Instant) {
        self.context().end_pace.end_by(by);
        self.shutdown().await;
    }

    /// From now on the servers' processes are killed where they would have been asked to end.
    pub fn hurry(&self) {
        self.context().end_pace.hurry();
    }

    /// Calls a tool. Everything `perform` does, without the evidence that it is allowed.
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

    /// Makes a call in a task of its own, which goes on when the deadline has passed: what comes then goes to `late`.
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
            // Whoever waits is told once: of the end, or that the deadline passed.
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
                // The late answer may be there before anybody looked that the deadline had passed.
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
            return Err(not_announced("what is a single user's own to others"));
        }
        let turn = tokio::time::timeout_at(deadline, context.watches.change_lock.lock()).await;
        let _turn = turn.map_err(|_| PerformFailure::unavailable("others wait to watch something, too"))?;
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

    /// Legacy servers are told; the subscription of a modern one changes by itself.
    fn unsubscribe(&self, subject: WatchSubject) {
        let Some(link) = self.0.connections.base.ready().filter(|link| link.peer.era() == Era::Legacy) else { return };
        let context = Arc::clone(self.context());
        self.context().tasks.spawn(async move {
            // In turn, so that whoever wants it again after this is not unsubscribed by it.
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
    /// How many connections of one requester there are, and how many tasks in all.
    pub(crate) fn census(&self) -> (usize, usize) {
        (self.0.connections.pool.len(), self.context().tasks.len())
    }
}
