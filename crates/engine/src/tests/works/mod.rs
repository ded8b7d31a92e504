//! Long work: told of as a task or a handle, fetched later, cancelled honestly, and found again after a crash.

mod cancelled;
mod followed;
mod operations;
mod recovered;
mod told;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};
use servanda_contract::{OperationKeys, ToolContract};
use servanda_mcp::{Era, RpcError};
use servanda_upstream::{Answer, PerformFailure, ServerMessage};
use tokio::{runtime::Runtime, sync::Semaphore};

use super::effects::Bank;
use crate::{
    CallAnswer, CallRequest, Gateway as _, InquiryAnswer, InquirySubject, RequestTerms, Requester,
    deferred::recovery::run_once,
    testing::{
        EngineHarness, EngineTestClock, ScriptedRequest, ScriptedServer, call, draft, inquiry, parse, requester,
        snapshot_of,
    },
};

pub(super) const MINUTE_MS: u64 = 60_000;

pub(super) fn long(mut contract: ToolContract) -> ToolContract {
    contract.execution = Some(serde_json::from_value(json!({"timeout_class": "long_running"})).unwrap());
    contract.runtime.timeout_ms = 240_000;
    contract
}

pub(super) fn long_write() -> ToolContract {
    long(draft("up", "write", true))
}

pub(super) fn long_read() -> ToolContract {
    long(draft("up", "echo", false))
}

/// Class K, N, Q or R by its letter.
pub(super) fn of_class(class: &str) -> ToolContract {
    let mut contract = long_write();
    let manifest = json!([{ "resource": "x", "operation": "UPDATE", "scope": "tenant" }]);
    let effect = match class {
        "R" => return ToolContract { binding: contract.binding, ..long(draft("up", "write", false)) },
        "K" => json!({"class": "K", "mutation_class": "write_irreversible", "manifest": manifest,
            "key": {"argument": "idem"}, "key_window_sec": 7200}),
        _ => json!({"class": "N", "mutation_class": "write_irreversible", "manifest": manifest}),
    };
    contract.effect = Some(serde_json::from_value(effect).unwrap());
    contract
}

pub(super) fn takes_tasks() -> Requester {
    requester(Era::Modern, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

pub(super) fn plain() -> Requester {
    requester(Era::Modern, &json!({}))
}

pub(super) fn legacy() -> Requester {
    requester(Era::Legacy, &json!({}))
}

pub(super) fn with_task(request: CallRequest) -> CallRequest {
    CallRequest { task: Some(RawValue::from_string("{}".to_owned()).unwrap()), ..request }
}

pub(super) fn keyed(requester: &Requester) -> CallRequest {
    let keys = OperationKeys { idempotency_key: Some("k".to_owned()), ..OperationKeys::default() };
    CallRequest { keys, ..call(requester, "write", RequestTerms::default()) }
}

/// A server that answers `done` when it is let go, and says how far it came if it is told to.
pub(super) struct Slow {
    pub(super) server: Arc<ScriptedServer>,
    pub(super) go: Arc<Semaphore>,
    pub(super) heard_cancel: Arc<AtomicBool>,
}

pub(super) fn slow(progress: &'static [&'static str]) -> Slow {
    let (go, heard_cancel) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicBool::new(false)));
    let (gate, cancelled) = (go.clone(), heard_cancel.clone());
    let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard: ScriptedRequest| {
        let (gate, cancelled) = (gate.clone(), cancelled.clone());
        async move {
            for params in progress {
                let message = ServerMessage::Progress(RawValue::from_string((*params).to_owned()).unwrap());
                heard.delivery.server_messages.as_ref().inspect(|sink| sink.try_send(message).unwrap());
            }
            let mutates = heard.params["name"] == "write";
            loop {
                tokio::select! {
                    place = gate.acquire() => { place.unwrap().forget(); break; }
                    () = heard.delivery.cancel.cancelled(), if !cancelled.load(Ordering::SeqCst) => {
                        cancelled.store(true, Ordering::SeqCst);
                        // As the real upstream does: a change is read to its end.
                        if !mutates {
                            return Err(PerformFailure::Cancelled { sent: true });
                        }
                    }
                }
            }
            let result = Bytes::from_static(br#"{"content":[ {"type":"text","text":"done"} ],"x" : 1.0}"#);
            Ok(Answer { result, era: Era::Modern })
        }
    });
    Slow { server, go, heard_cancel }
}

pub(super) fn task(answer: CallAnswer) -> Value {
    match answer {
        CallAnswer::Task(json) => parse(&json),
        other => panic!("not a task: {other:?}"),
    }
}

pub(super) async fn about(
    harness: &EngineHarness,
    requester: &Requester,
    subject: InquirySubject,
    params: Value,
) -> Result<Value, RpcError> {
    match harness.engine.inquire(inquiry(requester, subject, &params, RequestTerms::default())).await? {
        InquiryAnswer::Complete(json) => Ok(parse(&json)),
        other @ InquiryAnswer::InputRequired(_) => panic!("{other:?}"),
    }
}

pub(super) async fn status(harness: &EngineHarness, requester: &Requester, id: &Value) -> Value {
    about(harness, requester, InquirySubject::Task, json!({"taskId": id})).await.unwrap()
}

/// Asks until it is so; time passes by itself while everybody waits.
pub(super) async fn until_status(harness: &EngineHarness, requester: &Requester, id: &Value, wanted: &str) -> Value {
    for _ in 0..1_000 {
        let found = status(harness, requester, id).await;
        if found["status"] == wanted {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never was {wanted}: {}", status(harness, requester, id).await);
}

pub(super) fn fetch(requester: &Requester, arguments: &Value) -> CallRequest {
    let arguments = Bytes::from(arguments.to_string());
    CallRequest { arguments, ..call(requester, "servanda__result", RequestTerms::default()) }
}

/// The first process, which dies with everything it does; and the second.
pub(super) struct TwoLives {
    pub(super) bank: Bank,
    pub(super) contracts: Vec<ToolContract>,
    pub(super) clock: Arc<EngineTestClock>,
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

impl TwoLives {
    pub(super) fn new(server: Arc<ScriptedServer>, contracts: Vec<ToolContract>) -> Self {
        let first = runtime();
        let bank = first.block_on(async { Bank::new(server, contracts.clone()) });
        let clock = bank.clock.clone();
        drop(first);
        Self { bank, contracts, clock }
    }

    /// Lives until the future is over, and dies.
    pub(super) fn live<T>(&self, life: impl AsyncFnOnce(&EngineHarness) -> T) -> T {
        let runtime = runtime();
        runtime.block_on(async {
            let snapshot = snapshot_of(&self.bank.server, self.contracts.clone());
            let harness = self.bank.harness.restarted(snapshot, self.clock.clone());
            life(&harness).await
        })
    }

    /// A second life, some time after: what was left behind is looked after.
    pub(super) fn recover<T>(&self, after_ms: u64, life: impl AsyncFnOnce(&EngineHarness) -> T) -> T {
        self.clock.pass_ms(after_ms);
        self.live(async |harness| {
            run_once(harness.engine.long_running(), &mut BTreeSet::new()).await;
            life(harness).await
        })
    }
}
