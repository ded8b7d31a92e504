//! What one key may do, end to end: the answers of the design's table, with an upstream that counts its calls.

mod reads;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{OperationKeys, Refusal, TaxonomyClass, ToolContract, refusal::EffectKnowledge};
use servanda_effects::effect::{Effect, EffectQuery, EffectState, EffectStore as _};
use servanda_gates::OPERATION_ARGUMENT;
use servanda_mcp::Era;
use servanda_upstream::{Answer, PerformFailure};
use tokio::sync::Notify;

use super::conversations::{input, result};
use crate::{
    CallAnswer, CallRequest, Gateway as _, RequestTerms, Requester,
    testing::{
        EngineHarness, EngineTestClock, ScriptedRequest, ScriptedServer, again, call, draft, parse, requester, said,
        snapshot_of, text,
    },
};

pub(super) const HOUR_MS: u64 = 3_600_000;

/// A gateway with one scripted server, and a clock that the test controls.
pub(super) struct Bank {
    pub(super) harness: EngineHarness,
    pub(super) server: Arc<ScriptedServer>,
    pub(super) clock: Arc<EngineTestClock>,
}

impl Bank {
    pub(super) fn new(server: Arc<ScriptedServer>, contracts: Vec<ToolContract>) -> Self {
        let clock = EngineTestClock::new();
        let harness = EngineHarness::in_snapshot(snapshot_of(&server, contracts), Arc::default(), clock.clone());
        Self { harness, server, clock }
    }

    /// One tool `write`, with the test's changes.
    pub(super) fn writing<F>(
        change: impl FnOnce(&mut ToolContract),
        script: impl Fn(ScriptedRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Answer, PerformFailure>> + Send + 'static,
    {
        let mut contract = draft("up", "write", true);
        change(&mut contract);
        Self::new(ScriptedServer::new(Era::Modern, &json!({}), script), vec![contract])
    }

    pub(super) async fn call(&self, request: CallRequest) -> CallAnswer {
        self.harness.engine.call(request).await
    }

    pub(super) fn calls(&self) -> usize {
        self.server.heard().iter().filter(|line| line.starts_with("tools/call")).count()
    }

    pub(super) async fn effects(&self) -> Vec<Effect> {
        self.harness.effects.list(EffectQuery { limit: 100, ..EffectQuery::default() }).await.unwrap()
    }

    pub(super) async fn states(&self) -> Vec<EffectState> {
        self.effects().await.into_iter().map(|effect| effect.state).collect()
    }
}

pub(super) fn write(arguments: &Value, keys: OperationKeys) -> CallRequest {
    let arguments = Bytes::from(arguments.to_string());
    CallRequest { arguments, keys, ..call(&Requester::local(), "write", RequestTerms::default()) }
}

pub(super) fn keyed(key: &str) -> CallRequest {
    let keys = OperationKeys { idempotency_key: Some(key.to_owned()), ..OperationKeys::default() };
    write(&json!({"text": "hello"}), keys)
}

pub(super) fn keyless() -> CallRequest {
    write(&json!({"text": "hello"}), OperationKeys::default())
}

pub(super) fn refusal(answer: CallAnswer) -> Refusal {
    serde_json::from_str(result(answer)["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn observation(result: &Value) -> &Value {
    &result["_meta"]["servanda/observation"]
}

pub(super) fn died() -> PerformFailure {
    PerformFailure::Died { why: "reset".to_owned() }
}

fn dying() -> Bank {
    Bank::writing(|_| {}, |_| async { Err(died()) })
}

#[tokio::test]
async fn the_same_key_is_answered_with_the_same_bytes_and_nothing_is_sent() {
    // With unusual spaces, so that rewritten bytes would be noticed.
    let bank = Bank::writing(
        |_| {},
        |_| async {
            let result = Bytes::from_static(br#"{"content":[ {"type":"text","text":"done"} ],"x" : 1.0}"#);
            Ok(Answer { result, era: Era::Modern })
        },
    );
    let CallAnswer::Result(first) = bank.call(keyed("k")).await else { panic!("no result") };
    let CallAnswer::Result(again) = bank.call(keyed("k")).await else { panic!("no result") };
    let payload = |json: &str| json.split_once("\"_meta\"").unwrap().0.to_owned();
    assert_eq!(payload(&first.json), payload(&again.json));
    assert!(payload(&again.json).contains(r#"[ {"type":"text","text":"done"} ],"x":1.0"#), "{}", again.json);
    let full = |answered| parse(&crate::answers::tool_result::with_full_detail(answered).json);
    let (first, again) = (full(first), full(again));
    assert_eq!(observation(&first)["execution_metadata"]["idempotency_hit"], false);
    assert_eq!(observation(&again)["execution_metadata"]["idempotency_hit"], true);
    assert_ne!(
        observation(&first)["tool_identity"]["call_id"],
        observation(&again)["tool_identity"]["call_id"],
        "a call of its own"
    );
    assert_eq!((bank.calls(), bank.harness.outcomes()), (1, vec!["completed", "replayed"]));
    let records = bank.harness.records.finished.lock().unwrap().clone();
    assert!(records[0].effect_id.is_some());
    assert_eq!(records[0].effect_id, records[1].effect_id);
    assert_eq!(bank.states().await, [EffectState::Completed]);
}

#[tokio::test]
async fn a_failure_that_is_final_is_answered_again() {
    let bank = Bank::writing(
        |_| {},
        |_| async {
            Ok(said(
                Era::Modern,
                &json!({"isError": true, "content": [{"type": "text", "text": "no such invoice\u{202e}"}]}),
            ))
        },
    );
    for hit in [false, true] {
        let answer = result(bank.call(keyed("k")).await);
        assert_eq!(
            (&answer["isError"], &answer["content"][0]["text"]),
            (&json!(true), &json!("no such invoice\u{202e}"))
        );
        let told = &answer["_meta"]["servanda/observation"]["result_payload"]["errors"][0]["message"];
        assert_eq!(told, "no such invoice<U+202E>", "the gateway's own words show everything");
        assert_eq!(observation(&answer)["execution_metadata"]["idempotency_hit"], hit);
        assert_eq!(observation(&answer)["status"]["taxonomy_class"], "STALE_STATE");
    }
    assert_eq!((bank.calls(), bank.states().await), (1, vec![EffectState::FailedFinal]));
}

#[tokio::test]
async fn another_payload_under_the_key_is_refused_and_told_nothing() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "s3cret")) });
    result(bank.call(keyed("k")).await);
    let other = CallRequest { arguments: Bytes::from_static(br#"{"text":"other"}"#), ..keyed("k") };
    let refused = refusal(bank.call(other).await);
    assert_eq!(refused.error_code, TaxonomyClass::SignatureMismatch);
    assert!(refused.fail_closed && !refused.retryable);
    assert!(!serde_json::to_string(&refused).unwrap().contains("s3cret"));
    assert_eq!(bank.calls(), 1);
}

/// A bank that answers when the test allows it.
struct Slow {
    bank: Arc<Bank>,
    /// Notified when a call has reached it.
    begun: Arc<Notify>,
    /// Lets it answer.
    gate: Arc<Notify>,
}

fn slow() -> Slow {
    slow_saying(json!({"content": [{"type": "text", "text": "done"}]}))
}

fn slow_saying(answer: Value) -> Slow {
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, awaited) = (begun.clone(), gate.clone());
    let bank = Arc::new(Bank::writing(
        |_| {},
        move |_| {
            let (told, awaited, answer) = (told.clone(), awaited.clone(), answer.clone());
            async move {
                told.notify_one();
                awaited.notified().await;
                Ok(said(Era::Modern, &answer))
            }
        },
    ));
    Slow { bank, begun, gate }
}

#[tokio::test]
async fn while_it_runs_others_get_a_handle_and_then_the_result() {
    let Slow { bank, begun, gate } = slow();
    let inside = bank.clone();
    let first = tokio::spawn(async move { result(inside.call(keyed("k")).await) });
    begun.notified().await;
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!(refused.error_code, TaxonomyClass::IdempotencyConflict);
    assert!(refused.retryable && refused.retry_after_ms.is_some());
    assert_eq!(refused.handle.as_deref(), Some(bank.effects().await[0].id.as_str()));
    gate.notify_one();
    let first = first.await.unwrap();
    assert_eq!(result(bank.call(keyed("k")).await)["content"], first["content"]);
    assert_eq!(bank.calls(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_is_told_and_never_sent_again() {
    let bank = dying();
    let first = refusal(bank.call(keyed("k")).await);
    let handle = bank.effects().await[0].id.to_string();
    assert_eq!((first.effect, first.handle.as_deref()), (EffectKnowledge::Unknown, Some(handle.as_str())));
    let again = refusal(bank.call(keyed("k")).await);
    assert_eq!((again.effect, again.retryable, again.fail_closed), (EffectKnowledge::Unknown, false, true));
    assert_eq!(again.handle.as_deref(), Some(handle.as_str()));
    assert!(again.operator_hint.unwrap().contains(&format!("servanda effects show {handle}")));
    assert_eq!((bank.calls(), bank.states().await), (1, vec![EffectState::OutcomeUnknown]));
}

#[tokio::test]
async fn a_blind_retry_is_stopped_unless_it_says_that_it_is_a_new_operation() {
    let bank = dying();
    refusal(bank.call(keyless()).await);
    let handle = bank.effects().await[0].id.to_string();
    let blind = refusal(bank.call(keyless()).await);
    assert_eq!((blind.error_code, blind.effect), (TaxonomyClass::IdempotencyConflict, EffectKnowledge::None));
    assert_eq!((blind.handle.as_deref(), blind.retryable), (Some(handle.as_str()), false));
    assert!(blind.hint.contains(OPERATION_ARGUMENT), "{}", blind.hint);
    assert_eq!((bank.calls(), bank.harness.engine.calls().retry_counters.counts().2), (1, 1));
    let new = write(&json!({"text": "hello", OPERATION_ARGUMENT: "second payment"}), OperationKeys::default());
    refusal(bank.call(new).await);
    assert_eq!(bank.calls(), 2);
    assert!(!bank.server.heard()[1].contains(OPERATION_ARGUMENT), "{}", bank.server.heard()[1]);
    let other = write(&json!({"text": "another"}), OperationKeys::default());
    refusal(bank.call(other).await);
    assert_eq!(bank.calls(), 3, "another payload is another operation");
}

#[tokio::test]
async fn two_genuine_payments_without_a_key_are_two() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "paid")) });
    result(bank.call(keyless()).await);
    result(bank.call(keyless()).await);
    assert_eq!((bank.calls(), bank.harness.outcomes()), (2, vec!["completed", "completed"]));
}

#[tokio::test]
async fn the_same_operation_or_step_is_the_same_key() {
    let named = |change: fn(&mut OperationKeys)| {
        let mut keys = OperationKeys::default();
        change(&mut keys);
        write(&json!({"text": "hello"}), keys)
    };
    let ways: [fn(&mut OperationKeys); 4] = [
        |keys| keys.operation_id = Some("a".to_owned()),
        |keys| keys.step_id = Some("a".to_owned()),
        |keys| keys.header_key = Some("a".to_owned()),
        |keys| (keys.operation_id, keys.run_id) = (Some("a".to_owned()), Some("1".to_owned())),
    ];
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "paid")) });
    for (number, way) in ways.into_iter().enumerate() {
        result(bank.call(named(way)).await);
        result(bank.call(named(way)).await);
        assert_eq!(bank.calls(), number + 1);
    }
}

#[tokio::test]
async fn what_never_ran_may_be_tried_again_under_its_key() {
    let down = Arc::new(AtomicBool::new(true));
    let is_down = down.clone();
    let bank = Bank::writing(
        |_| {},
        move |_| {
            let down = is_down.load(Ordering::SeqCst);
            async move {
                if down {
                    Err(PerformFailure::Unavailable { why: "refused".to_owned() })
                } else {
                    Ok(text(Era::Modern, "done"))
                }
            }
        },
    );
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.effect, refused.retryable), (EffectKnowledge::None, true));
    assert_eq!(bank.states().await, [EffectState::FailedRetryable]);
    down.store(false, Ordering::SeqCst);
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!(bank.states().await, [EffectState::Completed]);
}

#[tokio::test]
async fn errors_that_the_contract_says_did_nothing_leave_nothing_behind() {
    let says_so = |contract: &mut ToolContract| {
        contract.effect.as_mut().unwrap().not_executed_errors = vec!["insufficient funds".to_owned()];
    };
    let bank = Bank::writing(says_so, |_| async {
        Ok(said(Era::Modern, &json!({"isError": true, "content": [{"type": "text", "text": "Insufficient funds"}]})))
    });
    result(bank.call(keyed("k")).await);
    assert_eq!(bank.states().await, [EffectState::FailedRetryable]);
    result(bank.call(keyed("k")).await);
    assert_eq!(bank.calls(), 2, "it may be tried again");
}

#[tokio::test]
async fn a_key_that_expired_never_runs_again() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
    result(bank.call(keyed("k")).await);
    bank.clock.pass_ms(HOUR_MS);
    let refused = refusal(bank.call(keyed("k")).await);
    assert_eq!((refused.error_code, refused.retryable), (TaxonomyClass::IdempotencyConflict, false));
    assert!(refused.message.contains("expired"), "{}", refused.message);
    assert_eq!(bank.calls(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_its_contract_happened_and_is_said_to_have_happened_again() {
    let promises = |contract: &mut ToolContract| {
        contract.affordance.output_schema =
            json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}})
                .as_object()
                .unwrap()
                .clone()
                .into();
    };
    let bank = Bank::writing(promises, |_| async { Ok(text(Era::Modern, "s3cret")) });
    for outcome in ["quarantined", "replayed"] {
        let refused = refusal(bank.call(keyed("k")).await);
        assert_eq!(refused.effect, EffectKnowledge::Happened);
        assert_eq!(refused.error_code, TaxonomyClass::ObservationNormalizationFail);
        assert_eq!(bank.harness.last_record().outcome.name(), outcome);
    }
    assert_eq!((bank.calls(), bank.states().await), (1, vec![EffectState::Completed]));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_on_record_is_not_acknowledged_and_gets_there_when_the_store_is_back() {
    let Slow { bank, begun, gate } = slow();
    let inside = bank.clone();
    let first = tokio::spawn(async move { result(inside.call(keyed("k")).await) });
    begun.notified().await;
    bank.harness.effects.down.store(true, Ordering::Relaxed);
    gate.notify_one();
    let unsaid = first.await.unwrap();
    let refusal: Value = serde_json::from_str(unsaid["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&refusal["effect"], &refusal["retryable"]), (&json!("happened"), &json!(false)), "{refusal:#}");
    assert_eq!(bank.states().await, [EffectState::Dispatching], "until it is recorded it counts as under way");
    bank.harness.effects.down.store(false, Ordering::Relaxed);
    bank.harness.engine.drain(std::time::Duration::from_mins(1)).await;
    assert_eq!(bank.states().await, [EffectState::Completed]);
    assert_eq!(result(bank.call(keyed("k")).await)["content"][0]["text"], "done");
    assert_eq!(bank.calls(), 1);
}

/// A tool that fails may have changed something first, so the answer does not say which.
#[tokio::test(start_paused = true)]
async fn a_tools_error_that_is_not_on_record_leaves_open_what_happened() {
    let Slow { bank, begun, gate } =
        slow_saying(json!({"isError": true, "content": [{"type": "text", "text": "no such account"}]}));
    let inside = bank.clone();
    let first = tokio::spawn(async move { refusal(inside.call(keyed("k")).await) });
    begun.notified().await;
    bank.harness.effects.down.store(true, Ordering::Relaxed);
    gate.notify_one();
    let refused = first.await.unwrap();
    assert_eq!((refused.effect, refused.retryable), (EffectKnowledge::Unknown, false), "{refused:?}");
}

/// The table: how many ends the store rejects because of their content, whether the caller gets an error, and the effect's state.
#[tokio::test(start_paused = true)]
async fn an_end_whose_record_cannot_be_kept_is_kept_without_it_or_given_up() {
    for (unkept, is_error, state) in [(1, false, EffectState::Completed), (2, true, EffectState::Dispatching)] {
        let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "done")) });
        bank.harness.effects.unkept_ends.store(unkept, Ordering::Relaxed);
        let answered = result(bank.call(keyed("k")).await);
        assert_eq!(answered["isError"] == true, is_error, "{unkept}: {answered:#}");
        // Nothing is offered to the store for ever.
        bank.harness.engine.drain(std::time::Duration::from_mins(1)).await;
        assert_eq!((bank.states().await, bank.calls()), (vec![state], 1), "{unkept}");
    }
}

fn asks_once(heard: &ScriptedRequest) -> Answer {
    match &heard.delivery.continuation.request_state {
        None => said(
            Era::Modern,
            &json!({"resultType": "input_required", "requestState": "one",
            "inputRequests": {"who": {"method": "elicitation/create", "params": {"message": "Who?"}}}}),
        ),
        Some(_) => text(Era::Modern, "done"),
    }
}

#[tokio::test]
async fn what_waits_for_input_goes_on_under_its_own_key_and_no_other() {
    let bank = Bank::writing(
        |_| {},
        |heard| {
            let answer = asks_once(&heard);
            async { Ok(answer) }
        },
    );
    let modern = requester(Era::Modern, &json!({"elicitation": {}}));
    let first = || CallRequest { requester: modern.clone(), ..keyed("k") };
    let asked = input(bank.call(first()).await);
    assert_eq!(refusal(bank.call(first()).await).error_code, TaxonomyClass::IdempotencyConflict, "it waits");
    let terms = || again(&asked["requestState"], &json!({"who": {"action": "accept", "content": {}}}));
    let other = CallRequest { terms: terms(), requester: modern.clone(), ..keyed("other") };
    assert_eq!(refusal(bank.call(other).await).error_code, TaxonomyClass::SignatureMismatch);
    let bare = || CallRequest { terms: terms(), keys: OperationKeys::default(), ..first() };
    assert_eq!(result(bank.call(bare()).await)["content"][0]["text"], "done");
    assert_eq!(bank.states().await, [EffectState::Completed]);
    let replayed = result(bank.call(bare()).await);
    assert_eq!(observation(&replayed)["execution_metadata"]["idempotency_hit"], true, "the answer was lost on its way");
    result(bank.call(first()).await);
    assert_eq!(bank.calls(), 2);
}

#[tokio::test]
async fn what_became_a_task_is_settled_by_its_end() {
    let server = ScriptedServer::new(Era::Modern, &json!({}), |heard| async move {
        Ok(match heard.method {
            "tools/call" => said(
                Era::Modern,
                &json!({"resultType": "task", "taskId": "t", "status": "working",
                "createdAt": "2026-11-15T09:00:00Z", "lastUpdatedAt": "2026-11-15T09:00:00Z", "ttlMs": 60000}),
            ),
            _ => said(
                Era::Modern,
                &json!({"resultType": "complete", "taskId": "t", "status": "completed",
                "createdAt": "2026-11-15T09:00:00Z", "lastUpdatedAt": "2026-11-15T09:00:00Z", "ttlMs": 60000,
                "result": {"content": [{"type": "text", "text": "done"}]}}),
            ),
        })
    });
    let bank = Bank::new(server, vec![draft("up", "write", true)]);
    let modern = requester(Era::Modern, &json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let first = || CallRequest { requester: modern.clone(), ..keyed("k") };
    let CallAnswer::Task(task) = bank.call(first()).await else { panic!("no task") };
    let ours = parse(&task)["taskId"].as_str().unwrap().to_owned();
    let refused = refusal(bank.call(first()).await);
    assert!(refused.message.contains(&ours), "{}", refused.message);
    let inquiry = crate::testing::inquiry(
        &modern,
        crate::InquirySubject::Task,
        &json!({"taskId": ours}),
        RequestTerms::default(),
    );
    bank.harness.engine.inquire(inquiry).await.unwrap();
    assert_eq!(bank.states().await, [EffectState::Completed]);
    assert_eq!(result(bank.call(first()).await)["content"][0]["text"], "done");
    assert_eq!(bank.calls(), 1);
}

#[tokio::test]
async fn a_caller_of_another_principal_knows_nothing_of_the_key() {
    let bank = Bank::writing(|_| {}, |_| async { Ok(text(Era::Modern, "s3cret")) });
    result(bank.call(keyed("k")).await);
    let mut other = keyed("k");
    Arc::make_mut(&mut other.requester.caller).principal = "mallory".to_owned();
    other.arguments = Bytes::from_static(br#"{"text":"other"}"#);
    result(bank.call(other).await);
    assert_eq!((bank.calls(), bank.effects().await.len()), (2, 2), "neither seen, nor claimed, nor probed");
}
