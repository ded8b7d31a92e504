//! Exports spans: gathers calls, makes their spans, sends them, and tries again within limits. What cannot be sent is counted and dropped, so
//! a collector that is away costs memory for the queue and nothing else.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use prost::Message as _;
use servanda_contract::{CallRecord, unique};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    attributes::AttributeSet,
    figures::SpanCounters,
    names,
    otlp::{OtlpExportRequest, OtlpResource, OtlpResourceSpans, OtlpScope, OtlpScopeSpans},
    spans::{span_count, spans_of},
    transport::{SpanSendFailure, SpanTransport},
};

/// The most calls of one message; with about fifteen spans each it has some 600 kB.
const BATCH_CALLS_MAX: usize = 128;
/// How long a message gathers calls.
const BATCH_WAIT_MS: u64 = 1_000;
/// How often the queue is looked at meanwhile.
const GLANCE_MS: u64 = 50;
/// The first wait before a message is sent again; each further wait is twice as long.
const RETRY_WAIT_MS: u64 = 1_000;
/// How often a message is sent at most.
const ATTEMPTS_MAX: u32 = 4;
/// When a message is given up, whatever attempts are left.
const MESSAGE_MS_MAX: u64 = 30_000;
/// How long the end of the gateway waits for what is queued.
const FLUSH_MS_MAX: u64 = 1_000;

/// Exports what a [`CallTracer`](super::CallTracer) takes.
#[derive(Debug)]
pub struct SpanExporter {
    queue: mpsc::Receiver<CallRecord>,
    counters: Arc<SpanCounters>,
    transport: Box<dyn SpanTransport>,
    resource: ExportResource,
    send_ms_max: u64,
    /// Whether the last message was not taken; the operator is told once.
    is_failing: bool,
    /// Whether the operator was told that the queue was full.
    is_full_told: bool,
}

/// What all spans of this process have in common.
#[derive(Debug)]
pub(super) struct ExportResource {
    service_name: String,
    instance: String,
}

impl ExportResource {
    pub(super) fn new(service_name: String) -> Self {
        Self { service_name, instance: unique::random().to_string() }
    }

    fn message(&self, calls: &[CallRecord]) -> OtlpExportRequest {
        let attributes = AttributeSet::default()
            .text(names::SERVICE_NAME, &self.service_name)
            .text(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION"))
            .text(names::SERVICE_INSTANCE, &self.instance)
            .finish();
        let scope = OtlpScope { name: "servanda".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let spans = calls.iter().flat_map(spans_of).collect();
        OtlpExportRequest {
            resource_spans: vec![OtlpResourceSpans {
                resource: Some(OtlpResource { attributes }),
                scope_spans: vec![OtlpScopeSpans { scope: Some(scope), spans }],
            }],
        }
    }
}

impl SpanExporter {
    pub(super) fn new(
        queue: mpsc::Receiver<CallRecord>,
        counters: Arc<SpanCounters>,
        transport: Box<dyn SpanTransport>,
        resource: ExportResource,
        send_ms_max: u64,
    ) -> Self {
        Self { queue, counters, transport, resource, send_ms_max, is_failing: false, is_full_told: false }
    }

    /// Exports until it is stopped, and then for at most a second what is queued.
    pub fn run(mut self, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let counters = Arc::clone(&self.counters);
            {
                let mut exporting = pin!(self.export_until(&stop));
                tokio::select! {
                    biased;
                    () = &mut exporting => {}
                    () = end_of_flush(&stop) => {}
                }
            }
            self.queue.close();
            let rest = counters.drop_rest();
            if rest > 0 {
                tracing::warn!(spans = rest, "the collector did not take the last spans in time; they are dropped");
            }
        })
    }

    async fn export_until(&mut self, stop: &CancellationToken) {
        let mut calls = Vec::with_capacity(BATCH_CALLS_MAX);
        while self.gather(&mut calls, stop).await {
            self.deliver(&calls, stop).await;
            calls.clear();
        }
    }

    /// Gathers the calls of one message. False if there are none and no more will come.
    async fn gather(&mut self, calls: &mut Vec<CallRecord>, stop: &CancellationToken) -> bool {
        let first = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            first = self.queue.recv() => first,
        };
        calls.extend(first);
        let until = Instant::now() + Duration::from_millis(BATCH_WAIT_MS);
        loop {
            self.take_queued(calls);
            if calls.len() >= BATCH_CALLS_MAX || Instant::now() >= until || stop.is_cancelled() || calls.is_empty() {
                return !calls.is_empty();
            }
            // A call that ends meanwhile wakes nobody, which would cost it a system call.
            tokio::select! {
                () = sleep(Duration::from_millis(GLANCE_MS)) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Takes the calls that are queued already.
    fn take_queued(&mut self, calls: &mut Vec<CallRecord>) {
        while calls.len() < BATCH_CALLS_MAX
            && let Ok(call) = self.queue.try_recv()
        {
            calls.push(call);
        }
    }

    async fn deliver(&mut self, calls: &[CallRecord], stop: &CancellationToken) {
        let spans = calls.iter().map(|record| span_count(record) as u64).sum();
        let message = Bytes::from(self.resource.message(calls).encode_to_vec());
        match self.send(message, stop).await {
            Ok(rejected) => {
                self.counters.export(spans, rejected);
                self.tell_sent(rejected);
            }
            Err(failure) => {
                self.counters.drop_unsent(spans);
                self.tell_failed(&failure);
            }
        }
        self.tell_full();
    }

    /// Sends a message until the collector takes it or it is given up. A gateway that ends tries once more at once.
    async fn send(&self, message: Bytes, stop: &CancellationToken) -> Result<u64, SpanSendFailure> {
        let given_up_at = Instant::now() + Duration::from_millis(MESSAGE_MS_MAX);
        let mut wait_ms = RETRY_WAIT_MS;
        for attempt in 1_u32.. {
            let is_ending = stop.is_cancelled();
            let sending = self.transport.send(message.clone());
            let sent = timeout(Duration::from_millis(self.send_ms_max), sending).await;
            let failure = match sent.unwrap_or_else(|_| Err(SpanSendFailure::late(self.send_ms_max))) {
                Ok(rejected) => return Ok(rejected),
                Err(failure) => failure,
            };
            let again_at = Instant::now() + failure.retry_after.unwrap_or(Duration::from_millis(wait_ms));
            if !failure.may_retry || is_ending || attempt >= ATTEMPTS_MAX || again_at >= given_up_at {
                return Err(failure);
            }
            wait_ms = wait_ms.saturating_mul(2);
            tokio::select! {
                () = sleep_until(again_at) => {}
                () = stop.cancelled() => {}
            }
        }
        Err(SpanSendFailure::late(MESSAGE_MS_MAX))
    }

    fn tell_sent(&mut self, rejected: u64) {
        if rejected > 0 {
            tracing::warn!(spans = rejected, "the collector rejected spans");
        }
        if std::mem::take(&mut self.is_failing) {
            let dropped = self.counters.read().dropped_spans();
            tracing::info!(dropped, "the collector takes spans again");
        }
    }

    fn tell_failed(&mut self, failure: &SpanSendFailure) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                %failure,
                "the collector does not take spans: they are dropped and counted until it does, and calls go on; \
                 hint: `telemetry.traces` has its address"
            );
        }
    }

    /// A full queue is told once; the counter has the rest.
    fn tell_full(&mut self) {
        let full = self.counters.read().dropped_full_spans;
        if full > 0 && !std::mem::replace(&mut self.is_full_told, true) {
            tracing::warn!(
                spans = full,
                "the queue of spans was full, so spans were dropped; they are counted from now on without a word; \
                 hint: raise `telemetry.traces.queue_spans_max` or lower `telemetry.traces.sample`"
            );
        }
    }
}

async fn end_of_flush(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(Duration::from_millis(FLUSH_MS_MAX)).await;
}

#[cfg(test)]
mod tests;
