//! The handle of one upstream: asks for a connection when there is none, makes the request on it, and says what became of
//! it. The lifecycle owns the connection; the transports own the bytes.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_contract::tool::EffectClass;
use servanda_gates::{Fenced, Notebook};
use servanda_mcp::fields::method;
use tokio::{
    sync::{Notify, broadcast, watch},
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Announcement, Answer, Counterpart, Delivery, Offer, PerformFailure, Performed, Question, RemarkSink, ToolList,
    UpstreamError, UpstreamId, UpstreamSpec, UpstreamStatus,
    connect::{Setting, outcome},
    lifecycle::{Lifecycle, Phase, Stage, Step, next_step},
    link::{Ended, Link, Outgoing, Terms, WhenCancelled},
    message::{self, CallMeta},
    tool_list::Gathering,
};

/// How many connections a request may try. A request that may change something is taken by one of them at most.
const CONNECTIONS_MAX: usize = 2;

/// One configured MCP server. Clones share the connection; when the last clone is gone, the server is ended.
#[derive(Clone)]
pub struct Upstream(Arc<Handle>);

struct Handle {
    setting: Arc<Setting>,
    stage: watch::Receiver<Stage>,
    demand: Arc<Notify>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

/// What became of a call, without the evidence that it was allowed.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) sent: bool,
    pub(crate) outcome: Result<Answer, PerformFailure>,
}

impl Upstream {
    /// A handle; nothing is started before it is needed. Must be called within a tokio runtime. What is learned about the
    /// server and worth knowing after a restart goes into the notebook.
    pub fn new(spec: UpstreamSpec, notebook: Arc<dyn Notebook>) -> Self {
        let setting = Arc::new(Setting::new(spec, notebook));
        let (stage, stages) = watch::channel(Stage { phase: Phase::Idle, attempts_failed: 0 });
        let demand = Arc::new(Notify::new());
        let stop = CancellationToken::new();
        let lifecycle =
            Lifecycle { setting: Arc::clone(&setting), stage, demand: Arc::clone(&demand), stop: stop.clone() };
        setting.tasks.spawn(lifecycle.run());
        Self(Arc::new(Handle { setting, stage: stages, demand, _stop_when_dropped: stop.clone().drop_guard(), stop }))
    }

    /// Its name in the configuration.
    pub fn id(&self) -> &UpstreamId {
        &self.0.setting.spec.id
    }

    /// Everything the server says it offers to that counterpart, all pages. Connects if needed. Each page may take `connect_ms_max`.
    ///
    /// Cancel safe: nothing but the list is lost.
    pub async fn tools(&self, _counterpart: &Counterpart) -> Result<ToolList, UpstreamError> {
        let limits = &self.0.setting.spec.limits;
        let cancel = CancellationToken::new();
        let mut gathering = Gathering::new(limits.clone());
        let mut cursor = None;
        loop {
            let deadline = Instant::now() + Duration::from_millis(limits.connect_ms_max);
            let page = self.page(cursor.as_deref(), deadline, &cancel).await?;
            cursor = gathering.add_page(&page)?;
            if cursor.is_none() {
                return Ok(gathering.finish());
            }
        }
    }

    /// Performs a fenced call.
    ///
    /// Not cancel safe: a call that has been sent and is then dropped may still be executed, and nobody learns how it
    /// ended. Run it in a task of its own and cancel through [`Delivery::cancel`].
    pub async fn perform(&self, fenced: Fenced, delivery: Delivery) -> Performed {
        let started = Instant::now();
        let called = if fenced.upstream() == self.id().as_str() {
            Box::pin(self.call_tool(fenced.upstream_tool(), fenced.arguments(), fenced.effect_class(), delivery)).await
        } else {
            let why = format!("the call is for `{}`, this is `{}`", fenced.upstream(), self.id());
            Called { sent: false, outcome: Err(PerformFailure::Unavailable { why }) }
        };
        let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Performed { fenced, sent: called.sent, took_us, outcome: called.outcome }
    }

    /// Makes a request that is not a tool call. Connects if needed.
    ///
    /// Cancel safe in the sense that only the answer is lost.
    pub async fn ask(&self, question: Question, delivery: Delivery) -> Result<Answer, PerformFailure> {
        let _ = (question, delivery);
        Err(PerformFailure::unavailable("not built yet"))
    }

    /// What a server says outside any request. A receiver that lags loses the oldest.
    pub fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.0.setting.announcements()
    }

    /// What the server says about itself, once it is connected; connects if needed.
    pub async fn offer(&self, deadline: Instant) -> Result<Offer, PerformFailure> {
        let _ = deadline;
        Err(PerformFailure::unavailable("not built yet"))
    }

    /// Wants to hear when a resource changes. The wish holds over reconnections until [`Upstream::unwatch`].
    pub async fn watch(&self, uri: &str, deadline: Instant) -> Result<(), PerformFailure> {
        let _ = (uri, deadline);
        Err(PerformFailure::unavailable("not built yet"))
    }

    /// Does not want to hear of it any more.
    pub fn unwatch(&self, uri: &str) {
        let _ = uri;
    }

    /// Where remarks go that no request of this affinity can be said to have caused: questions and log lines that a legacy
    /// server sends between requests. Without it such questions are declined.
    pub fn attach(&self, affinity: &str, remarks: RemarkSink) {
        let _ = (affinity, remarks);
    }

    /// Tells a legacy server something on the connection of that counterpart, if there is one.
    pub fn notify(&self, counterpart: &Counterpart, method: &'static str, params: Option<Box<RawValue>>) {
        let _ = (counterpart, method, params);
    }

    /// Ends what was kept for an affinity: its connections and where its remarks go.
    pub fn release(&self, affinity: &str) {
        let _ = affinity;
    }

    /// Counts up whenever the tool list may have changed: the server says so, or a new connection was made.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.setting.changes()
    }

    /// How it is.
    pub fn status(&self) -> UpstreamStatus {
        self.0.stage.borrow().status(Instant::now())
    }

    /// Ends the connection and the server behind it, and waits for that. Calls made from now on are not available.
    ///
    /// Cancel safe: the end goes on without the waiter.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.setting.tasks.close();
        self.0.setting.tasks.wait().await;
    }

    /// Calls a tool. Everything `perform` does, without the evidence that it is allowed.
    pub(crate) async fn call_tool(
        &self,
        tool: &str,
        arguments: &Bytes,
        effect: EffectClass,
        delivery: Delivery,
    ) -> Called {
        let Delivery { deadline, remarks, wants_progress, cancel, trace_parent, .. } = delivery;
        let progress = remarks.filter(|_| wants_progress);
        let mut sent = false;
        let mut not_taken = None;
        for _ in 0..CONNECTIONS_MAX {
            let link = match self.link(deadline, &cancel).await {
                Ok(link) => link,
                Err(failure) => return Called { sent, outcome: Err(failure) },
            };
            let id = self.0.setting.next_id();
            let meta =
                CallMeta { progress_token: progress.as_ref().map(|_| id), trace_parent: trace_parent.as_deref() };
            let body = message::tools_call(id, link.peer.era(), tool, arguments, meta);
            let version = Some(link.peer.version);
            let request = Outgoing { id, method: method::TOOLS_CALL, name: Some(tool), version, body };
            let terms = Terms {
                deadline: Some(deadline),
                cancel: cancel.clone(),
                when_cancelled: if effect.mutates() { WhenCancelled::ReadOn } else { WhenCancelled::Abandon },
                progress: progress.clone(),
                tell_server: true,
            };
            let ended = link.exchange(request, terms).await;
            let again = match &ended {
                Ended::NeverLeft { .. } => true,
                // A server can execute a call and then disown the session; nobody could tell.
                Ended::Disowned(_) => !effect.mutates(),
                Ended::Answered(_) | Ended::Failed(_) => false,
            };
            if again {
                sent |= matches!(ended, Ended::Disowned(_));
                await_departure(&link, deadline, &cancel).await;
                not_taken = Some(ended);
                continue;
            }
            let outcome = outcome(ended);
            sent |= outcome.as_ref().err().is_none_or(|failure| !failure.provably_not_executed());
            return Called { sent, outcome: outcome.map(|result| Answer { result, era: link.peer.era() }) };
        }
        let failure = not_taken.and_then(|ended| outcome(ended).err());
        let outcome = Err(failure.unwrap_or_else(|| PerformFailure::unavailable("no connection took the request")));
        Called { sent, outcome }
    }

    async fn page(
        &self,
        cursor: Option<&str>,
        deadline: Instant,
        cancel: &CancellationToken,
    ) -> Result<Bytes, PerformFailure> {
        let mut ended = Ended::NeverLeft { why: "no connection took the request".to_owned() };
        for _ in 0..CONNECTIONS_MAX {
            let link = self.link(deadline, cancel).await?;
            let id = self.0.setting.next_id();
            let body = message::tools_list(id, link.peer.era(), cursor);
            let version = Some(link.peer.version);
            let request = Outgoing { id, method: method::TOOLS_LIST, name: None, version, body };
            ended = link.exchange(request, Terms { tell_server: true, ..Terms::until(deadline) }).await;
            if !matches!(ended, Ended::NeverLeft { .. } | Ended::Disowned(_)) {
                break;
            }
            await_departure(&link, deadline, cancel).await;
        }
        outcome(ended)
    }

    /// A connection that is ready, made if need be. Waits for one attempt at most. Cancel safe.
    async fn link(&self, deadline: Instant, cancel: &CancellationToken) -> Result<Arc<Link>, PerformFailure> {
        if let Phase::Ready(link) = &self.0.stage.borrow().phase
            && !link.departure().is_told()
        {
            return Ok(Arc::clone(link));
        }
        let mut stages = self.0.stage.clone();
        let attempts_failed_before = stages.borrow_and_update().attempts_failed;
        loop {
            let step = next_step(&stages.borrow_and_update(), attempts_failed_before, Instant::now(), deadline);
            match step {
                Step::Use(link) => return Ok(link),
                Step::GiveUp(why) => return Err(PerformFailure::Unavailable { why }),
                Step::Wait { ask: true } => self.0.demand.notify_one(),
                Step::Wait { ask: false } => {}
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(PerformFailure::Cancelled { sent: false }),
                changed = stages.changed() => {
                    if changed.is_err() {
                        return Err(PerformFailure::unavailable("it is shut down"));
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Err(PerformFailure::unavailable("it was not connected before the deadline"));
                }
            }
        }
    }
}

/// A connection that did not take a request is about to go; the next one comes after it.
async fn await_departure(link: &Link, deadline: Instant, cancel: &CancellationToken) {
    tokio::select! {
        _ = link.departure().told() => {}
        () = cancel.cancelled() => {}
        () = tokio::time::sleep_until(deadline) => {}
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Upstream").field("id", self.id()).field("status", &self.status()).finish()
    }
}
