//! What spans say of a call, and what none says.

use prost::Message as _;
use servanda_contract::{
    CallId, TaxonomyClass, Timestamp,
    record::{LATE_ANSWER_CLIENT, Outcome},
    trace::{ParentSpan, TraceStanding},
};

use super::*;
use crate::traces::{
    otlp::{OtlpAttribute, OtlpScalar},
    testing::{CALL, CANARY, TRACE, completed, refused},
};

const PARENT: &str = "b7ad6b7169203331";

fn called() -> CallRecord {
    let parent = ParentSpan::parse(&format!("00-{TRACE}-{PARENT}-01"));
    CallRecord { trace: TraceStanding { parent, is_sequel: false }, ..completed() }
}

fn hex(bytes: &[u8]) -> String {
    servanda_contract::digest::hex(bytes)
}

fn id(span: CallSpan) -> String {
    SpanId::of_call(&CallId::from(CALL.to_owned()), span).to_string()
}

/// The attributes as text, one a line.
fn written(attributes: &[OtlpAttribute]) -> Vec<String> {
    let value = |attribute: &OtlpAttribute| match attribute.value.clone().unwrap().value.unwrap() {
        OtlpScalar::Text(text) => text,
        OtlpScalar::Flag(flag) => flag.to_string(),
        OtlpScalar::Number(number) => number.to_string(),
    };
    attributes.iter().map(|attribute| format!("{}={}", attribute.key, value(attribute))).collect()
}

fn has(span: &OtlpSpan, attribute: &str) -> bool {
    written(&span.attributes).iter().any(|written| written == attribute)
}

#[test]
fn a_call_has_a_span_for_itself_for_each_stage_and_for_its_upstream() {
    let spans = spans_of(&called());
    let shape: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.kind(), hex(&span.parent_span_id))).collect();
    let server = id(CallSpan::Server);
    assert_eq!(
        shape,
        [
            ("tools/call company__list_files", OtlpSpanKind::Server, PARENT.to_owned()),
            ("servanda resolve", OtlpSpanKind::Internal, server.clone()),
            ("servanda parse", OtlpSpanKind::Internal, server.clone()),
            ("tools/call list_files", OtlpSpanKind::Client, server.clone()),
            ("servanda observe", OtlpSpanKind::Internal, server.clone()),
        ]
    );
    assert_eq!(hex(&spans[0].span_id), server);
    assert_eq!(hex(&spans[3].span_id), id(CallSpan::Client));
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE && span.status.is_none()));
    // Stages follow each other; the call ends with its record's moment.
    let received = called().received_at.unix_ms() * 1_000_000;
    let times: Vec<_> =
        spans.iter().map(|span| (span.start_time_unix_nano - received, span.end_time_unix_nano - received)).collect();
    assert_eq!(times, [(0, 4_000_000), (0, 10_000), (10_000, 30_000), (30_000, 3_030_000), (3_030_000, 3_070_000)]);
}

#[test]
fn the_attributes_of_a_call() {
    let record = CallRecord {
        effect_id: Some("eff_1".to_owned()),
        ticket_id: Some("apr_1".to_owned()),
        attempts: Some(2),
        ..called()
    };
    let spans = spans_of(&record);
    let mut said = written(&spans[0].attributes);
    said.retain(|attribute| !attribute.starts_with("tool.idempotency_key_hash=sha256:"));
    assert_eq!(
        said,
        [
            "mcp.method.name=tools/call",
            "gen_ai.operation.name=execute_tool",
            "gen_ai.tool.name=company__list_files",
            "tool.name=company.list_files",
            "tool.version=1.2.0",
            &format!("tool.call_id={CALL}"),
            "tool.side_effect_class=READ_ONLY",
            "tool.validation.status=passed",
            "tool.retryable=false",
            "tool.repairable=false",
            "tool.approval_id=apr_1",
            "tenant.id=acme",
            "trace.replayable=true",
            &format!("servanda.call.id={CALL}"),
            "servanda.outcome=completed",
            "servanda.decision.outcome=allowed",
            "servanda.approval.id=apr_1",
            "servanda.effect.id=eff_1",
            "servanda.upstream=company",
        ]
    );
    assert_eq!(
        written(&spans[3].attributes),
        [
            "mcp.method.name=tools/call",
            "gen_ai.operation.name=execute_tool",
            "gen_ai.tool.name=list_files",
            &format!("servanda.call.id={CALL}"),
            "servanda.upstream=company",
            "servanda.attempts=2",
        ]
    );
    assert_eq!(written(&spans[1].attributes), ["servanda.gate=resolve", "servanda.gate.decision=passed"]);
}

#[test]
fn a_refused_call_says_where_and_as_what() {
    let table = [
        (GateName::Bounds, TaxonomyClass::OutOfBounds, "failed"),
        (GateName::Policy, TaxonomyClass::PolicyViolation, "blocked"),
    ];
    for (gate, class, status) in table {
        let spans = spans_of(&refused(gate, class));
        let [server, _, stage] = spans.as_slice() else { panic!("{gate}: {} spans", spans.len()) };
        for attribute in [
            "error.type=tool_error".to_owned(),
            format!("tool.error_code={}", class.name()),
            format!("tool.validation.status={status}"),
            "servanda.decision.outcome=refused".to_owned(),
            format!("servanda.decision.gate={gate}"),
        ] {
            assert!(has(server, &attribute), "{attribute}: {:?}", written(&server.attributes));
        }
        let failed = server.status.clone().unwrap();
        assert_eq!((failed.code(), failed.message), (OtlpStatusCode::Error, format!("{} at {gate}", class.name())));
        assert_eq!(stage.status.clone().unwrap().code(), OtlpStatusCode::Error);
    }
    let mut held = refused(GateName::Confirmation, TaxonomyClass::ConfirmationMissing);
    if let Some(refusal) = &mut held.refusal {
        refusal.requires_approval = true;
    }
    assert!(has(&spans_of(&held)[0], "servanda.decision.outcome=approval_pending"));
    assert!(has(&spans_of(&held)[0], "tool.validation.status=approval_pending"));
}

#[test]
fn what_failed_at_the_upstream_is_an_error_of_both_spans() {
    let record = CallRecord {
        outcome: Outcome::ToolError,
        class: Some(TaxonomyClass::Timeout),
        refusal: refused(GateName::Perform, TaxonomyClass::Timeout).refusal,
        ..called()
    };
    let spans = spans_of(&record);
    for span in [&spans[0], &spans[3]] {
        assert_eq!(span.status.clone().unwrap().code(), OtlpStatusCode::Error);
    }
    assert!(has(&spans[0], "error.type=tool_error"));
    assert!(has(&spans[0], "servanda.decision.outcome=allowed"));
    assert!(has(&spans[3], &format!("error.type={}", TaxonomyClass::Timeout.name())));
    let said_by_tool = CallRecord { outcome: Outcome::ToolError, refusal: None, ..record };
    assert!(has(&spans_of(&said_by_tool)[3], "error.type=tool_error"));
}

#[test]
fn later_ends_are_below_the_call_that_they_end() {
    let task = CallRecord { trace: TraceStanding { parent: None, is_sequel: true }, ..completed() };
    let spans = spans_of(&task);
    assert_eq!(spans.len(), 1, "stages and upstream are spans of the call that became the task");
    assert_eq!(spans[0].kind(), OtlpSpanKind::Internal);
    assert_eq!(hex(&spans[0].span_id), id(CallSpan::Sequel));
    assert_eq!(hex(&spans[0].parent_span_id), id(CallSpan::Server));

    let mut caller = servanda_contract::Caller::clone(&completed().caller);
    caller.client = Some(LATE_ANSWER_CLIENT.to_owned());
    let late = CallRecord {
        call_id: CallId::from("call_late".to_owned()),
        caller: caller.into(),
        continues: Some(CallId::from(CALL.to_owned())),
        verdicts: Vec::new(),
        ..called()
    };
    let spans = spans_of(&late);
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].kind(), OtlpSpanKind::Internal);
    assert_eq!(hex(&spans[0].parent_span_id), id(CallSpan::Server));
}

#[test]
fn a_call_that_is_sent_again_after_a_crash_has_its_upstreams_span() {
    let resent = CallRecord { verdicts: Vec::new(), ..completed() };
    let spans = spans_of(&resent);
    assert_eq!(spans.iter().map(OtlpSpan::kind).collect::<Vec<_>>(), [OtlpSpanKind::Server, OtlpSpanKind::Client]);
    let received = resent.received_at.unix_ms() * 1_000_000;
    assert_eq!(spans[1].end_time_unix_nano - received, 4_000_000);
}

/// The queue counts spans before they are made.
#[test]
fn spans_are_counted_as_they_are_made() {
    let sequel = CallRecord { trace: TraceStanding { parent: None, is_sequel: true }, ..completed() };
    let resent = CallRecord { verdicts: Vec::new(), ..completed() };
    let unfinished = CallRecord { finished_at: None, ..resent.clone() };
    let refused = refused(GateName::Types, TaxonomyClass::TypeMismatch);
    for record in [called(), refused, sequel, resent, unfinished] {
        assert_eq!(span_count(&record), spans_of(&record).len());
    }
}

/// Must show 6. Arguments, results, keys, chains, and what messages quote.
#[test]
fn no_span_has_what_the_call_was_given_or_got() {
    let quoted = refused(GateName::Perform, TaxonomyClass::Timeout).refusal;
    let policy = servanda_contract::record::PolicyRecord {
        task: Some(CANARY.to_owned()),
        intent: Some(CANARY.to_owned()),
        ..servanda_contract::record::PolicyRecord::default()
    };
    for record in [
        called(),
        refused(GateName::Bounds, TaxonomyClass::OutOfBounds),
        CallRecord { outcome: Outcome::ToolError, refusal: quoted, policy: Some(policy), ..called() },
    ] {
        assert!(format!("{record:?}").contains("acme"), "the record is a real one");
        for span in spans_of(&record) {
            let bytes = span.encode_to_vec();
            assert!(!bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()), "{}", span.name);
        }
    }
}

#[test]
fn a_name_that_is_too_long_is_cut() {
    let record = CallRecord { tool: "é".repeat(10_000), finished_at: Some(Timestamp::from_unix_ms(1)), ..called() };
    let span = spans_of(&record).remove(0);
    assert_eq!(span.name.chars().count(), "tools/call ".len() + 256);
    assert!(span.encode_to_vec().len() < 2_048);
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano, "a clock that went back makes no negative span");
}
