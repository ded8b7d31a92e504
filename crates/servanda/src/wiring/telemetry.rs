//! Hands finished calls to what measures them, and runs the export of spans.
//!
//! Deliberately not here: the figures and spans themselves.

use std::sync::Arc;

use servanda_config::{ConfigError, LoadedConfig};
use servanda_contract::CallRecord;
use servanda_engine::CallObserver;
use servanda_telemetry::{
    metrics::Metrics,
    traces::{CallTracer, SpanExporter, TraceSettings},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{credentials, failure::CommandFailure};

/// Everything that measures the calls of this gateway.
#[derive(Debug, Default)]
pub(crate) struct CallTelemetry {
    /// None if calls are not counted.
    metrics: Option<Arc<Metrics>>,
    /// None if spans are not exported.
    traces: Option<CallTracer>,
}

/// The running export of spans.
#[derive(Debug)]
pub(crate) struct SpanExport {
    stop: CancellationToken,
    running: TaskTracker,
}

/// Where spans go and which, if they are exported; with the collector's secret.
pub(crate) fn trace_settings(loaded: &LoadedConfig) -> Result<Option<TraceSettings>, ConfigError> {
    loaded.traces(|reference| credentials::vault(loaded).get(reference).map_err(|error| error.to_string()))
}

impl CallTelemetry {
    /// What measures calls by these settings, and the running export of spans. If nothing comes to measure any more, the export ends.
    pub(crate) fn start(
        metrics: Option<Arc<Metrics>>,
        traces: Option<TraceSettings>,
    ) -> Result<(Arc<Self>, SpanExport), CommandFailure> {
        let made = traces.map(CallTracer::new).transpose();
        let made = made.map_err(|error| CommandFailure::failed(format!("spans cannot be exported: {error}")))?;
        let (traces, exporter) = made.unzip();
        Ok((Arc::new(Self { metrics, traces }), SpanExport::start(exporter)))
    }

    /// Spans that were made and not exported; none if none are made.
    pub(crate) fn dropped_spans(&self) -> Option<u64> {
        self.traces.as_ref().map(|traces| traces.figures().dropped_spans())
    }
}

impl CallObserver for CallTelemetry {
    fn call_ended(&self, record: &CallRecord) {
        if let Some(metrics) = &self.metrics {
            metrics.call_ended(record);
        }
        if let Some(traces) = &self.traces {
            traces.call_ended(record);
        }
    }

    fn samples_trace(&self, trace_id: &str) -> Option<bool> {
        self.traces.as_ref().map(|traces| traces.samples_trace(trace_id))
    }
}

impl SpanExport {
    fn start(exporter: Option<SpanExporter>) -> Self {
        let (stop, running) = (CancellationToken::new(), TaskTracker::new());
        if let Some(exporter) = exporter {
            running.spawn(exporter.run(stop.clone()));
        }
        running.close();
        Self { stop, running }
    }

    /// Lets the exporter send what is queued. It takes a second at most.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.running.wait().await;
    }
}
