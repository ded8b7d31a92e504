//! The handle of one upstream: what can be wanted of a server, in one place. The connections own the bytes and their lives;
//! the dispatch makes requests on them.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use servanda_contract::{Digest, digest::Domain, tool::EffectClass};
use servanda_effects::Notebook;
use servanda_gates::Fenced;
use servanda_mcp::{Era, envelope::code, fields::method};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Announcement, Answer, Bystander, CallErrand, Counterpart, CredentialSource, Delivery, LateSink, Offer,
    PerformFailure, Performed, Question, ToolList, UpstreamError, UpstreamId, UpstreamSpec, UpstreamStatus,
    connection::{
        Connection, OwnWatch,
        link::Link,
        listening,
        pool::{Pool, Purpose},
    },
    dispatch::{Called, Connections, Draft},
    eras::Eras,
    http_client::InProcessListener,
    request::{Terms, message, overtime::Overtime},
    shared::{Setting, watches::Subject},
    tool_list::Gathering,
};

/// One configured MCP server. Clones share the connections; when the last clone is gone, the server is ended.
#[derive(Clone)]
pub struct Upstream(Arc<Handle>);

struct Handle {
    connections: Connections,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// A call that does not need its evidence any more to be made.
struct OwnedCall {
    tool: String,
    arguments: Bytes,
    effect: EffectClass,
    call: Option<CallErrand>,
}

impl Upstream {
    /// A handle; nothing is started before it is needed. Must be called within a tokio runtime. What is learned about the
    /// server and worth knowing after a restart goes into the notebook.
    pub fn new(spec: UpstreamSpec, notebook: Arc<dyn Notebook>) -> Self {
        Self::showing(spec, notebook, Vec::new())
    }

    /// The same for a server that is shown what these sources present.
    pub fn showing(spec: UpstreamSpec, notebook: Arc<dyn Notebook>, sources: Vec<Arc<dyn CredentialSource>>) -> Self {
        Self::of(Setting::new(spec, notebook, sources))
    }

    /// The same for an HTTP server in this process, which takes its ends of connections there; nothing goes over a socket.
    pub fn in_process(spec: UpstreamSpec, notebook: Arc<dyn Notebook>, listener: InProcessListener) -> Self {
        Self::of(Setting::new(spec, notebook, Vec::new()).reached_in_process(listener))
    }

    fn of(setting: Setting) -> Self {
        let (setting, stop) = (Arc::new(setting), CancellationToken::new());
        let base = Connection::new(&setting, None, stop.child_token());
        let pool = Pool::new(Arc::clone(&setting), stop.clone());
        let connections = Connections { setting, base, pool };
        Self(Arc::new(Handle { connections, _stop_when_dropped: stop.clone().drop_guard(), stop }))
    }

    /// Whether it is shown anything that a source presents.
    pub fn is_shown_credentials(&self) -> bool {
        self.setting().credentials.is_some()
    }

    /// Whether that is each user's own, so that users do not share connections.
    pub fn is_personal(&self) -> bool {
        self.setting().is_personal()
    }

    /// How it is configured.
    pub fn spec(&self) -> &UpstreamSpec {
        &self.setting().spec
    }

    /// Its name in the configuration.
    pub fn id(&self) -> &UpstreamId {
        &self.setting().spec.id
    }

    /// Everything the server says it offers to that counterpart, all pages. Connects if needed. Each page may take
    /// `connect_ms_max`.
    ///
    /// Cancel safe: nothing but the list is lost.
    pub async fn tools(&self, counterpart: &Counterpart) -> Result<ToolList, UpstreamError> {
        let limits = &self.setting().spec.limits;
        let mut gathering = Gathering::new(limits.clone());
        let mut cursor: Option<String> = None;
        let mut editions = BTreeSet::new();
        loop {
            let deadline = Instant::now() + Duration::from_millis(limits.connect_ms_max);
            let delivery = Delivery { counterpart: counterpart.clone(), ..Delivery::until(deadline) };
            let page = self.deliver(&Draft::page(method::TOOLS_LIST, cursor.as_deref()), delivery).await;
            editions.extend(page.edition);
            cursor = gathering.add_page(&page.outcome?.result)?;
            if cursor.is_none() {
                let edition = editions.pop_first().filter(|_| editions.is_empty());
                let mut list = gathering.finish();
                if let Some(credentials) = &self.setting().credentials {
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
    pub async fn perform(&self, fenced: Fenced, mut delivery: Delivery) -> Performed {
        let started = Instant::now();
        let called = if fenced.upstream() == self.id().as_str() {
            let (tool, arguments) = (fenced.upstream_tool(), fenced.arguments());
            let draft = Draft::call(tool, arguments, fenced.effect_class());
            let call = self.setting().credentials.as_ref().map(|_| CallErrand {
                call_id: fenced.call_id().clone(),
                tool: tool.to_owned(),
                arguments: Digest::of(Domain::Arguments, &[arguments]),
                effect: fenced.effect_class(),
                entrusted: delivery.entrusted.clone(),
            });
            match delivery.late.take().filter(|_| fenced.effect_class().mutates()) {
                Some(late) => {
                    let (effect, arguments) = (fenced.effect_class(), arguments.clone());
                    let owned = OwnedCall { tool: tool.to_owned(), arguments, effect, call };
                    self.outlive(owned, delivery, late).await
                }
                None => self.deliver(&draft.known(call), delivery).await,
            }
        } else {
            let why = format!("the call is for `{}`, this is `{}`", fenced.upstream(), self.id());
            Called { sent: false, outcome: Err(PerformFailure::Unavailable { why }), edition: None }
        };
        let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Performed { fenced, sent: called.sent, took_us, outcome: called.outcome }
    }

    /// Makes a request that is not a tool call. Connects if needed.
    ///
    /// Cancel safe in the sense that only the answer is lost.
    pub async fn ask(&self, question: Question, delivery: Delivery) -> Result<Answer, PerformFailure> {
        self.deliver(&Draft::question(&question), delivery).await.outcome
    }

    /// What a server says outside any request. A receiver that lags loses the oldest.
    pub fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.setting().news.announcements()
    }

    /// What the server says about itself, once it is connected; connects if needed. A server of both eras says it in the
    /// modern one.
    pub async fn offer(&self, deadline: Instant) -> Result<Offer, PerformFailure> {
        let link = match self.base_link(deadline).await {
            Ok(link) => link,
            // Which side of the protocol it speaks is the same for every user.
            Err(failure) => self.0.connections.pool.any_ready().ok_or(failure)?,
        };
        Ok(offer_on(&link))
    }

    /// What the server says about itself to this counterpart: a server of both eras says it in the counterpart's.
    ///
    /// Cancel safe: nothing but the offer is lost.
    pub async fn offer_to(&self, counterpart: &Counterpart, deadline: Instant) -> Result<Offer, PerformFailure> {
        let offer = self.offer(deadline).await?;
        let keeps_era = offer.era == Era::Modern && counterpart.era == Era::Legacy;
        if !keeps_era || self.0.connections.known_as(counterpart).is_none() {
            return Ok(offer);
        }
        self.0.connections.link(counterpart, deadline).await.map(|link| offer_on(&link))
    }

    /// Wants to hear when a resource changes. The wish holds over reconnections until [`Upstream::unwatch`].
    ///
    /// Refused where users have connections of their own: the shared one is the gateway's, and what changes for the gateway
    /// is not the users' to hear.
    ///
    /// Cancel safe: a wish that is not waited for is none.
    pub async fn watch(&self, uri: &str, deadline: Instant) -> Result<(), PerformFailure> {
        self.watch_subject(Subject::Resource(uri.to_owned()), deadline).await
    }

    /// Does not want to hear of it any more.
    pub fn unwatch(&self, uri: &str) {
        let subject = Subject::Resource(uri.to_owned());
        if self.setting().watches.unwish(&subject) {
            self.unsubscribe(subject);
        }
    }

    /// Wants to hear when a resource changes, on the counterpart's own connection; none if it has no such connection or the
    /// server is modern too, and [`Upstream::watch`] is what it needs.
    ///
    /// Cancel safe: a wish that is not waited for ends with the connection.
    pub async fn watch_alone(
        &self,
        counterpart: &Counterpart,
        uri: &str,
        deadline: Instant,
    ) -> Result<Option<OwnWatch>, PerformFailure> {
        let users_own = self.0.connections.is_users_own(counterpart);
        let shares = !counterpart.capabilities.answers_anything() && !users_own;
        if shares || self.offer(deadline).await.is_ok_and(|offer| offer.era == Era::Modern) {
            return Ok(None);
        }
        let lease = self.0.connections.pool.lease(counterpart, Purpose::Gateway)?;
        OwnWatch::begin(self.setting(), counterpart, lease, uri, deadline).await.map(Some)
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
            Era::Modern => self.watch_subject(Subject::Task(task_id.to_owned()), deadline).await,
        }
    }

    /// Does not want to hear of it any more.
    pub fn unwatch_task(&self, task_id: &str) {
        self.setting().watches.unwish(&Subject::Task(task_id.to_owned()));
    }

    /// Where remarks go that no request of this affinity can be said to have caused: questions and log lines that a legacy
    /// server sends between requests. Without it such questions are declined.
    pub fn attach(&self, affinity: &str, bystander: Arc<dyn Bystander>) {
        if !self.setting().attached.attach(affinity, bystander) {
            tracing::warn!(upstream = %self.id(), "too many clients listen to remarks outside requests");
        }
    }

    /// Tells a legacy server something on the connection of that counterpart, if there is one.
    pub fn notify(&self, counterpart: &Counterpart, method: &'static str, params: Option<Box<RawValue>>) {
        let link = self.0.connections.present(counterpart);
        if let Some(link) = link.filter(|link| link.peer.era() == Era::Legacy) {
            link.say(message::told(method, params));
        }
    }

    /// Ends what was kept for an affinity: its connections and where its remarks go.
    pub fn release(&self, affinity: &str) {
        self.setting().attached.detach(affinity);
        self.0.connections.pool.release(affinity);
    }

    /// Counts up whenever the tool list may have changed: the server says so, or a new connection was made.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.setting().news.changes()
    }

    /// The number of the connection that the next request of this counterpart is made on, unlike any other's; none while
    /// there is no such connection.
    pub fn edition(&self, counterpart: &Counterpart) -> Option<u64> {
        self.0.connections.present(counterpart).map(|link| link.edition)
    }

    /// Whether requests of this counterpart are made on a connection of its own, as far as is known: a legacy server may
    /// offer something else on each.
    pub fn has_own_connection(&self, counterpart: &Counterpart) -> bool {
        self.0.connections.has_own(counterpart)
    }

    /// As whom the server knows this counterpart, as far as is known: by its own connection, by the one that legacy clients
    /// share at a server of both eras, or as nobody by the one that all share.
    pub fn known_as(&self, counterpart: &Counterpart) -> Counterpart {
        self.0.connections.known_as(counterpart).unwrap_or_else(Counterpart::nobody)
    }

    /// Whether legacy clients may be offered something by themselves: the server has their era, or was not asked for it yet.
    pub fn may_have_legacy_era(&self) -> bool {
        self.setting().known_eras.get() != Some(Eras::ModernOnly)
    }

    /// Which side of the protocol the server speaks on the shared connection, if that is known.
    pub fn known_era(&self) -> Option<Era> {
        self.setting().known_eras.get().map(Eras::shared)
    }

    /// Says whether no tool is called on a connection before [`Upstream::vouch`] says that it may be. It is not so at first.
    pub fn guard(&self, guarded: bool) {
        self.setting().guard(guarded);
    }

    /// Says whether tools may be called on this counterpart's present connection, if it is the one of that edition.
    pub fn vouch(&self, counterpart: &Counterpart, edition: u64, judged: bool) {
        if let Some(link) = self.0.connections.present(counterpart).filter(|link| link.edition == edition) {
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
        self.setting().tasks.close();
        self.setting().tasks.wait().await;
    }

    /// The same for a gateway that has to be gone by then: servers get less time to end by themselves. The time is not a promise
    /// to the waiter, who stops waiting or says [`Upstream::hurry`].
    ///
    /// Cancel safe: the end goes on without the waiter.
    pub async fn shutdown_by(&self, by: Instant) {
        self.setting().end_pace.end_by(by);
        self.shutdown().await;
    }

    /// From now on the servers' processes are killed where they would have been asked to end.
    pub fn hurry(&self) {
        self.setting().end_pace.hurry();
    }

    /// Calls a tool. Everything `perform` does, without the evidence that it is allowed.
    #[cfg(test)]
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &Bytes,
        effect: EffectClass,
        mut delivery: Delivery,
    ) -> Called {
        if let Some(late) = delivery.late.take() {
            let owned = OwnedCall { tool: tool.to_owned(), arguments: arguments.clone(), effect, call: None };
            return self.outlive(owned, delivery, late).await;
        }
        self.deliver(&Draft::call(tool, arguments, effect), delivery).await
    }

    async fn deliver(&self, draft: &Draft<'_>, delivery: Delivery) -> Called {
        Box::pin(self.0.connections.deliver(draft, delivery, None)).await
    }

    /// Makes a call in a task of its own, which goes on when the deadline has passed: what comes then goes to `late`.
    async fn outlive(&self, owned: OwnedCall, delivery: Delivery, late: LateSink) -> Called {
        let (setting, upstream) = (self.setting(), self.clone());
        let overtime = Overtime::new(&setting.overtime, &setting.spec.limits);
        let goes_on = Arc::clone(&overtime);
        let (told, mut in_time) = tokio::sync::oneshot::channel();
        setting.tasks.spawn(async move {
            let draft = Draft::call(&owned.tool, &owned.arguments, owned.effect).known(owned.call);
            let called = Box::pin(upstream.0.connections.deliver(&draft, delivery, Some(&goes_on))).await;
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
                Called { sent: true, outcome: Err(failure), edition: None }
            }),
            failure = overtime.begun() => Called { sent: true, outcome: Err(failure), edition: None },
        }
    }

    async fn base_link(&self, deadline: Instant) -> Result<Arc<Link>, PerformFailure> {
        self.0.connections.base.link(deadline, &CancellationToken::new()).await
    }

    async fn watch_subject(&self, subject: Subject, deadline: Instant) -> Result<(), PerformFailure> {
        let setting = self.setting();
        if setting.is_personal() {
            return Err(not_announced("what is a single user's own to others"));
        }
        let turn = tokio::time::timeout_at(deadline, setting.watches.turn.lock()).await;
        let _turn = turn.map_err(|_| PerformFailure::unavailable("others wait to watch something, too"))?;
        let wish = setting.watches.wish(subject.clone())?;
        let link = self.base_link(deadline).await?;
        match link.peer.era() {
            Era::Legacy => {
                let uri = ("uri".to_owned(), to_raw_value(subject.key()).map_err(|_| not_announced("this"))?);
                let question = Question { method: method::RESOURCES_SUBSCRIBE, name: None, params: vec![uri] };
                self.ask(question, Delivery::until(deadline)).await?;
            }
            Era::Modern => {
                let granted = setting.watches.concluded(wish.revision, deadline).await?;
                if !granted.includes(&subject) {
                    return Err(not_announced("this"));
                }
            }
        }
        wish.keep();
        Ok(())
    }

    /// Legacy servers are told; the subscription of a modern one changes by itself.
    fn unsubscribe(&self, subject: Subject) {
        let Some(link) = self.0.connections.base.ready().filter(|link| link.peer.era() == Era::Legacy) else { return };
        let setting = Arc::clone(self.setting());
        self.setting().tasks.spawn(async move {
            // In turn, so that whoever wants it again after this is not unsubscribed by it.
            let _turn = setting.watches.turn.lock().await;
            if setting.watches.wants(&subject) {
                return;
            }
            let deadline = Instant::now() + Duration::from_millis(setting.spec.limits.connect_ms_max);
            let (uri, terms) = (subject.key(), Terms { tell_server: true, ..Terms::until(deadline) });
            let _ = Box::pin(listening::subscribe(&setting, &link, method::RESOURCES_UNSUBSCRIBE, uri, terms)).await;
        });
    }

    fn setting(&self) -> &Arc<Setting> {
        &self.0.connections.setting
    }
}

fn offer_on(link: &Link) -> Offer {
    Offer { era: link.peer.era(), capabilities: Arc::clone(&link.peer.capabilities) }
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
    /// How many connections of one counterpart there are, and how many tasks in all.
    pub(crate) fn census(&self) -> (usize, usize) {
        (self.0.connections.pool.len(), self.setting().tasks.len())
    }
}
