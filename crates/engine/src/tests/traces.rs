//! What an upstream is told of a call's trace, and what the one who measures calls learns of it.

use std::sync::{Arc, Mutex};

use serde_json::json;
use servanda_contract::{
    CallRecord,
    record::Outcome,
    trace::{CallSpan, SpanId},
};
use servanda_mcp::Era;

use super::tasks::{about, harness as task_harness, modern, modern_server, modern_task, task};
use crate::{
    CallObserver, Gateway as _, InquirySubject, RequestTerms,
    testing::{EngineHarness, ScriptedRequest, ScriptedServer, call, requester, text},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Keeps what it is told.
#[derive(Debug, Default)]
struct KeptCalls {
    /// Whether a trace is sampled; none if calls are not traced.
    samples: Option<bool>,
    ended: Mutex<Vec<CallRecord>>,
}

impl CallObserver for KeptCalls {
    fn call_ended(&self, record: &CallRecord) {
        self.ended.lock().unwrap().push(record.clone());
    }

    fn samples_trace(&self, _trace_id: &str) -> Option<bool> {
        self.samples
    }
}

/// The trace contexts that arrived at a server.
type ArrivedContexts = Arc<Mutex<Vec<Option<String>>>>;

/// A server, and the trace contexts that arrived there.
fn listening_server() -> (Arc<ScriptedServer>, ArrivedContexts) {
    let arrived = ArrivedContexts::default();
    let kept = arrived.clone();
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard: ScriptedRequest| {
        kept.lock().unwrap().push(heard.delivery.trace_parent.clone());
        async { Ok(text(Era::Modern, "done")) }
    });
    (server, arrived)
}

async fn called(samples: Option<bool>, tool: &str, sent: Option<String>) -> (CallRecord, Option<String>) {
    let (server, arrived) = listening_server();
    let harness = EngineHarness::new(servanda_catalog::names::ExposedNaming::Bare, &[("up", server)]);
    let observer = Arc::new(KeptCalls { samples, ..KeptCalls::default() });
    harness.engine.observe_calls(observer.clone());
    let terms = RequestTerms { trace_parent: sent, ..RequestTerms::default() };
    harness.engine.call(call(&requester(Era::Modern, &json!({})), tool, terms)).await;
    let ended = observer.ended.lock().unwrap();
    let [record] = ended.as_slice() else { panic!("a call ends once: {ended:?}") };
    let arrived = arrived.lock().unwrap();
    let [arrived] = arrived.as_slice() else { panic!("it was sent once: {arrived:?}") };
    (record.clone(), arrived.clone())
}

fn sent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

#[tokio::test]
async fn without_traces_an_upstream_gets_what_the_caller_sent() {
    for parent in [Some(sent("01")), Some(sent("00")), Some("not-a-context".to_owned()), None] {
        let (_, arrived) = called(None, "echo", parent.clone()).await;
        assert_eq!(arrived, parent);
    }
}

#[tokio::test]
async fn a_traced_call_is_its_upstreams_parent_and_its_callers_child() {
    for tool in ["echo", "write"] {
        for flags in ["00", "01"] {
            let (record, arrived) = called(Some(flags == "00"), tool, Some(sent(flags))).await;
            let client = SpanId::of_call(&record.call_id, CallSpan::Client);
            assert_eq!(arrived, Some(format!("00-{TRACE}-{client}-{flags}")), "{tool}");
            let parent = record.trace.parent.unwrap();
            assert_eq!((parent.id.to_string().as_str(), parent.is_sampled()), (PARENT, flags == "01"), "{tool}");
            assert_eq!(record.trace_id, TRACE, "{tool}");
        }
    }
}

#[tokio::test]
async fn a_traced_call_without_a_usable_context_begins_a_trace() {
    for (parent, samples, flags) in [(None, true, "01"), (Some("not-a-context".to_owned()), false, "00")] {
        let (record, arrived) = called(Some(samples), "echo", parent).await;
        let client = SpanId::of_call(&record.call_id, CallSpan::Client);
        assert_eq!(arrived, Some(format!("00-{}-{client}-{flags}", record.trace_id)));
        assert_eq!(record.trace.parent, None);
    }
}

/// A call that becomes its upstream's task is told twice; the second time is no call of its own.
#[tokio::test]
async fn the_end_of_a_task_is_told_as_a_sequel() {
    let (server, state) = modern_server();
    let harness = task_harness(&server);
    let observer = Arc::new(KeptCalls { samples: Some(true), ..KeptCalls::default() });
    harness.engine.observe_calls(observer.clone());
    for tool in ["echo", "write"] {
        *state.lock().unwrap() = modern_task("working", &json!({}));
        let created = task(harness.engine.call(call(&modern(), tool, RequestTerms::default())).await);
        let end = json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
        *state.lock().unwrap() = modern_task("completed", &json!({"result": end}));
        about(&harness, &modern(), InquirySubject::Task, json!({"taskId": created["taskId"]})).await.unwrap();
        let ended = std::mem::take(&mut *observer.ended.lock().unwrap());
        let seen: Vec<_> = ended.iter().map(|record| (record.outcome, record.trace.is_sequel)).collect();
        assert_eq!(seen, [(Outcome::TaskCreated, false), (Outcome::Completed, true)], "{tool}");
        assert_eq!(ended[0].call_id, ended[1].call_id, "{tool}");
    }
}
