//! The export against collectors that take, refuse, are slow or away. Time is the test's own.

use servanda_contract::{GateName, TaxonomyClass, record::Outcome};
use tokio::task::JoinHandle;

use super::*;
use crate::traces::{
    CallTracer, CollectorAddress, OtlpProtocol, TraceFigures, TraceSettings,
    testing::{MemoryCollector, PlannedAnswer, completed, refused},
};

const TAKES: PlannedAnswer = PlannedAnswer::Takes { rejects: 0 };
const FAILS: PlannedAnswer = PlannedAnswer::Fails { may_retry: true, retry_after: None };

struct Export {
    tracer: CallTracer,
    collector: MemoryCollector,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

fn settings() -> TraceSettings {
    TraceSettings {
        collector: CollectorAddress::parse("http://127.0.0.1:4318", OtlpProtocol::Http).unwrap(),
        sample_share: 1.0,
        slow_ms: 1_000,
        queue_spans_max: 2_048,
        send_ms_max: 10_000,
        service_name: "servanda".to_owned(),
    }
}

fn export(settings: TraceSettings, answers: &[PlannedAnswer]) -> Export {
    let collector = MemoryCollector::answering(answers);
    let (tracer, exporter) = CallTracer::with_transport(settings, Box::new(collector.clone()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(exporter.run(stop.clone()));
    Export { tracer, collector, stop, running }
}

impl Export {
    async fn stopped(self) -> (TraceFigures, MemoryCollector) {
        self.stop.cancel();
        self.running.await.unwrap();
        (self.tracer.figures(), self.collector)
    }
}

fn spans() -> u64 {
    span_count(&completed()) as u64
}

#[tokio::test(start_paused = true)]
async fn calls_are_gathered_into_messages() {
    let export = export(settings(), &[TAKES]);
    for _ in 0..3 {
        export.tracer.call_ended(&completed());
    }
    sleep(Duration::from_millis(BATCH_WAIT_MS + GLANCE_MS)).await;
    export.tracer.call_ended(&completed());
    let (figures, collector) = export.stopped().await;
    let counts = collector.messages().into_iter().map(|message| {
        let request = OtlpExportRequest::decode(message).unwrap();
        request.resource_spans[0].scope_spans[0].spans.len() as u64
    });
    assert_eq!(counts.collect::<Vec<_>>(), [3 * spans(), spans()]);
    assert_eq!(figures, TraceFigures { exported_spans: 4 * spans(), ..TraceFigures::default() });
}

#[tokio::test(start_paused = true)]
async fn only_sampled_calls_are_queued() {
    let export = export(TraceSettings { sample_share: 0.0, ..settings() }, &[TAKES]);
    export.tracer.call_ended(&completed());
    assert_eq!(export.tracer.figures(), TraceFigures::default());
    let kept = refused(GateName::Policy, TaxonomyClass::PolicyViolation);
    export.tracer.call_ended(&kept);
    let (figures, _) = export.stopped().await;
    assert_eq!(figures.exported_spans, span_count(&kept) as u64);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_counts_and_never_waits() {
    let places = usize::try_from(2 * spans()).unwrap();
    let export = export(TraceSettings { queue_spans_max: places, ..settings() }, &[PlannedAnswer::Never]);
    // Not a single await: what is ended here was never waited for.
    for _ in 0..5 {
        export.tracer.call_ended(&completed());
    }
    let queued = TraceFigures { queued_spans: 2 * spans(), dropped_full_spans: 3 * spans(), ..TraceFigures::default() };
    assert_eq!(export.tracer.figures(), queued);
    let (figures, _) = export.stopped().await;
    assert_eq!(figures.dropped_spans(), 5 * spans());
    assert_eq!(figures.queued_spans, 0);
}

/// Spans that are being sent hold their places, or a slow collector would need memory without a limit.
#[tokio::test(start_paused = true)]
async fn what_is_being_sent_holds_its_places() {
    let places = usize::try_from(spans()).unwrap();
    let export = export(TraceSettings { queue_spans_max: places, ..settings() }, &[PlannedAnswer::Never]);
    export.tracer.call_ended(&completed());
    sleep(Duration::from_millis(BATCH_WAIT_MS + GLANCE_MS)).await;
    assert_eq!(export.collector.messages().len(), 1);
    export.tracer.call_ended(&completed());
    assert_eq!(export.tracer.figures().dropped_full_spans, spans());
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_sent_again_and_the_rest_is_not() {
    let busy = PlannedAnswer::Fails { may_retry: true, retry_after: Some(Duration::from_secs(7)) };
    let long_busy = PlannedAnswer::Fails { may_retry: true, retry_after: Some(Duration::from_hours(1)) };
    let refuses = PlannedAnswer::Fails { may_retry: false, retry_after: None };
    let table = [
        (vec![FAILS, FAILS, TAKES], 3, 0),
        (vec![FAILS], 4, spans()),
        (vec![busy, TAKES], 2, 0),
        (vec![long_busy], 1, spans()),
        (vec![refuses], 1, spans()),
        (vec![PlannedAnswer::Takes { rejects: 2 }], 1, 2),
    ];
    for (answers, sent, dropped) in table {
        let export = export(settings(), &answers);
        export.tracer.call_ended(&completed());
        let started = Instant::now();
        sleep(Duration::from_mins(2)).await;
        assert_eq!(export.collector.messages().len(), sent, "{answers:?}");
        let figures = export.tracer.figures();
        assert_eq!(figures.dropped_spans(), dropped, "{answers:?}");
        assert_eq!(figures.exported_spans, spans() - dropped, "{answers:?}");
        assert_eq!(figures.queued_spans, 0, "{answers:?}");
        assert!(started.elapsed() >= Duration::from_mins(2));
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for() {
    let busy = PlannedAnswer::Fails { may_retry: true, retry_after: Some(Duration::from_secs(7)) };
    let export = export(settings(), &[busy, TAKES]);
    export.tracer.call_ended(&completed());
    sleep(Duration::from_millis(BATCH_WAIT_MS + 6_900)).await;
    assert_eq!(export.collector.messages().len(), 1);
    sleep(Duration::from_millis(200)).await;
    assert_eq!(export.collector.messages().len(), 2);
}

/// Must show: a dead or slow collector delays no shutdown. The clock is paused, so its time is exactly what was waited for.
#[tokio::test(start_paused = true)]
async fn the_end_waits_a_second_at_most() {
    for (answers, waits) in [
        (vec![TAKES], Duration::ZERO),
        (vec![FAILS], Duration::ZERO),
        (vec![PlannedAnswer::Never], Duration::from_millis(FLUSH_MS_MAX)),
    ] {
        let export = export(settings(), &answers);
        for _ in 0..400 {
            export.tracer.call_ended(&CallRecord { outcome: Outcome::Unknown, ..completed() });
        }
        let before = Instant::now();
        let (figures, _) = export.stopped().await;
        let waited = before.elapsed();
        assert!(waited >= waits && waited <= waits + Duration::from_millis(1), "{answers:?}: {waited:?}");
        assert_eq!(figures.queued_spans, 0, "{answers:?}");
        assert_eq!(figures.exported_spans + figures.dropped_spans(), 400 * spans(), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_after_the_end_is_counted_as_dropped() {
    let export = export(settings(), &[TAKES]);
    let (stop, running) = (export.stop, export.running);
    stop.cancel();
    running.await.unwrap();
    export.tracer.call_ended(&completed());
    let dropped = TraceFigures { dropped_full_spans: spans(), ..TraceFigures::default() };
    assert_eq!(export.tracer.figures(), dropped);
}
