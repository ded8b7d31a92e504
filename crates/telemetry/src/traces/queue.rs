//! The queue between calls and the export: what a call pays for being traced.

use std::sync::Arc;

use servanda_contract::CallRecord;
use tokio::sync::mpsc;

use super::{
    client::transport_to,
    exporter::{ExportResource, SpanExporter},
    figures::{SpanCounters, TraceFigures},
    sampling::SamplingRules,
    settings::{TraceSettings, TraceSettingsError},
    spans::span_count,
    transport::SpanTransport,
};

/// Takes finished calls whose spans are exported. It never waits.
#[derive(Debug)]
pub struct CallTracer {
    rules: SamplingRules,
    counters: Arc<SpanCounters>,
    calls: mpsc::Sender<CallRecord>,
    queue_spans_max: u64,
}

impl CallTracer {
    /// A tracer, and the exporter of what it takes. Nothing is connected yet.
    pub fn new(settings: TraceSettings) -> Result<(Self, SpanExporter), TraceSettingsError> {
        let transport = transport_to(&settings.collector)?;
        Ok(Self::with_transport(settings, transport))
    }

    pub(super) fn with_transport(settings: TraceSettings, transport: Box<dyn SpanTransport>) -> (Self, SpanExporter) {
        let queue_spans_max = settings.queue_spans_max.clamp(1, mpsc_places_max());
        // Every call has a span, so there are never more calls than spans.
        let (calls, queue) = mpsc::channel(queue_spans_max);
        let counters = Arc::new(SpanCounters::default());
        let tracer = Self {
            rules: SamplingRules { share: settings.sample_share, slow_ms: settings.slow_ms },
            counters: Arc::clone(&counters),
            calls,
            queue_spans_max: queue_spans_max as u64,
        };
        let resource = ExportResource::new(settings.service_name);
        (tracer, SpanExporter::new(queue, counters, transport, resource, settings.send_ms_max))
    }

    /// Takes note of a call that ended: a copy of its record waits for the export if the call is sampled and there is a place; if there is
    /// none, its spans are counted as dropped.
    pub fn call_ended(&self, record: &CallRecord) {
        if !self.rules.keeps(record) {
            return;
        }
        let spans = span_count(record) as u64;
        if !self.counters.reserve(spans, self.queue_spans_max) {
            return;
        }
        if self.calls.try_send(record.clone()).is_err() {
            self.counters.drop_full(spans);
        }
    }

    /// Whether a call of that trace is exported even if nothing about it is remarkable.
    pub fn samples_trace(&self, trace_id: &str) -> bool {
        self.rules.samples_trace(trace_id)
    }

    /// What the export did since the start.
    pub fn figures(&self) -> TraceFigures {
        self.counters.read()
    }
}

/// More places than this a channel does not have.
const fn mpsc_places_max() -> usize {
    tokio::sync::Semaphore::MAX_PERMITS
}
