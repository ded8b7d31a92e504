//! What the engine needs of an upstream: a port, so that bridge, relays and tasks can be tested against a scripted server. Outside tests
//! there is one implementation, and it adds nothing.

use std::{fmt, sync::Arc};

use serde_json::value::RawValue;
use servanda_effects::PortFuture;
use servanda_gates::Fenced;
use servanda_upstream::{
    Announcement, Answer, ConnectionResourceWatch, PerformFailure, RequestOptions, ServerMessageSink, ToolList,
    Upstream, UpstreamError, UpstreamInquiry, UpstreamOffer, UpstreamOutcome, UpstreamRequester,
};
use tokio::{sync::broadcast, time::Instant};

/// An MCP server, as the engine sees it. [`Upstream`] documents what each method promises.
pub(crate) trait UpstreamServer: fmt::Debug + Send + Sync {
    fn perform(&self, fenced: Fenced, delivery: RequestOptions) -> PortFuture<'_, UpstreamOutcome>;
    fn ask(
        &self,
        question: UpstreamInquiry,
        delivery: RequestOptions,
    ) -> PortFuture<'_, Result<Answer, PerformFailure>>;
    fn offer(&self, deadline: Instant) -> PortFuture<'_, Result<UpstreamOffer, PerformFailure>>;
    fn offer_to<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
        deadline: Instant,
    ) -> PortFuture<'a, Result<UpstreamOffer, PerformFailure>>;
    fn tools<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
    ) -> PortFuture<'a, Result<ToolList, UpstreamError>>;
    fn announcements(&self) -> broadcast::Receiver<Announcement>;
    fn watch<'a>(&'a self, uri: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>>;
    fn watch_alone<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
        uri: &'a str,
        deadline: Instant,
    ) -> PortFuture<'a, Result<Option<ConnectionResourceWatch>, PerformFailure>>;
    fn unwatch(&self, uri: &str);
    fn watch_task<'a>(&'a self, task_id: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>>;
    fn unwatch_task(&self, task_id: &str);
    fn attach(&self, affinity: &str, session_forwarder: Arc<dyn ServerMessageSink>);
    fn notify(&self, upstream_requester: &UpstreamRequester, method: &'static str, params: Option<Box<RawValue>>);
    fn release(&self, affinity: &str);
    fn edition(&self, upstream_requester: &UpstreamRequester) -> Option<u64>;
    fn is_shown_credentials(&self) -> bool;
    fn is_personal(&self) -> bool;
}

impl UpstreamServer for Upstream {
    fn perform(&self, fenced: Fenced, delivery: RequestOptions) -> PortFuture<'_, UpstreamOutcome> {
        self.perform(fenced, delivery)
    }

    fn ask(
        &self,
        question: UpstreamInquiry,
        delivery: RequestOptions,
    ) -> PortFuture<'_, Result<Answer, PerformFailure>> {
        self.ask(question, delivery)
    }

    fn offer(&self, deadline: Instant) -> PortFuture<'_, Result<UpstreamOffer, PerformFailure>> {
        self.offer(deadline)
    }

    fn offer_to<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
        deadline: Instant,
    ) -> PortFuture<'a, Result<UpstreamOffer, PerformFailure>> {
        self.offer_to(upstream_requester, deadline)
    }

    fn tools<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
    ) -> PortFuture<'a, Result<ToolList, UpstreamError>> {
        self.tools(upstream_requester)
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.announcements()
    }

    fn watch<'a>(&'a self, uri: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        self.watch(uri, deadline)
    }

    fn watch_alone<'a>(
        &'a self,
        upstream_requester: &'a UpstreamRequester,
        uri: &'a str,
        deadline: Instant,
    ) -> PortFuture<'a, Result<Option<ConnectionResourceWatch>, PerformFailure>> {
        self.watch_on_own_connection(upstream_requester, uri, deadline)
    }

    fn unwatch(&self, uri: &str) {
        self.unwatch(uri);
    }

    fn watch_task<'a>(&'a self, task_id: &'a str, deadline: Instant) -> PortFuture<'a, Result<(), PerformFailure>> {
        self.watch_task(task_id, deadline)
    }

    fn unwatch_task(&self, task_id: &str) {
        self.unwatch_task(task_id);
    }

    fn attach(&self, affinity: &str, session_forwarder: Arc<dyn ServerMessageSink>) {
        self.attach(affinity, session_forwarder);
    }

    fn notify(&self, upstream_requester: &UpstreamRequester, method: &'static str, params: Option<Box<RawValue>>) {
        self.notify(upstream_requester, method, params);
    }

    fn release(&self, affinity: &str) {
        self.release(affinity);
    }

    fn is_shown_credentials(&self) -> bool {
        self.is_shown_credentials()
    }

    fn is_personal(&self) -> bool {
        self.is_personal()
    }

    fn edition(&self, upstream_requester: &UpstreamRequester) -> Option<u64> {
        self.edition(upstream_requester)
    }
}
