//! Questions that contracts and policies do not permit: the client is not asked, however the server asks, and the refusal is recorded.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use servanda_catalog::names::ExposedNaming;
use servanda_contract::tool::QuestionKind;
use servanda_mcp::Era;
use servanda_upstream::Answer;

use super::conversations::told;
use crate::{
    CallAnswer, Gateway as _, RequestTerms, Requester, SystemClock,
    testing::{
        EngineHarness, ScriptedServer, TestRules, ask, call, draft, listening, requester, ruled, snapshot_of, text,
    },
    world::WorldSnapshot,
};

const FORBIDS_FORMS: &str = r#"
    @id("no-forms")
    forbid(principal, action, resource) when { context has question && context.question == "form" };
"#;

/// A server that asks during the call and answers with the reply it got.
fn legacy_server() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Legacy, &json!({}), |heard| async move {
        let reply = ask(&heard.delivery, "elicitation/create", &json!({"message": "Who?"})).await;
        let said = match reply {
            Ok(Ok(answer)) => answer.get().to_owned(),
            Ok(Err(error)) => error.message,
            Err(_) => "declined".to_owned(),
        };
        Ok(text(Era::Legacy, &said))
    })
}

/// A server whose answer is a question.
fn modern_server() -> Arc<ScriptedServer> {
    ScriptedServer::new(Era::Modern, &json!({}), |_| async {
        let question = json!({"who": {"method": "elicitation/create", "params": {"message": "Who?"}}});
        let result = json!({"resultType": "input_required", "inputRequests": question}).to_string();
        Ok(Answer { result: Bytes::from(result), era: Era::Modern })
    })
}

pub(super) fn by_policy(server: &Arc<ScriptedServer>) -> WorldSnapshot {
    ruled(
        ExposedNaming::Bare,
        &[("up", server.clone())],
        &TestRules { policies: FORBIDS_FORMS, ..TestRules::default() },
    )
}

pub(super) fn by_contract(server: &Arc<ScriptedServer>) -> WorldSnapshot {
    let mut contract = draft("up", "write", true);
    contract.questions = Some(vec![QuestionKind::Roots]);
    snapshot_of(server, vec![contract])
}

pub(super) fn harness(snapshot: WorldSnapshot) -> EngineHarness {
    EngineHarness::in_snapshot(snapshot, Arc::default(), Arc::new(SystemClock))
}

fn everybody() -> [Requester; 2] {
    [Era::Legacy, Era::Modern].map(|era| requester(era, &json!({"elicitation": {}})))
}

fn refusal_on_record(harness: &EngineHarness) -> String {
    let records = harness.records.finished.lock().unwrap();
    let [question] = records.last().unwrap().questions.as_slice() else { panic!("{records:?}") };
    assert_eq!(question.kind, Some(QuestionKind::Form));
    question.refused.clone().unwrap()
}

#[tokio::test]
async fn a_legacy_server_is_told_that_the_client_was_not_asked() {
    for snapshot in [by_policy, by_contract] {
        for requester in everybody() {
            let harness = harness(snapshot(&legacy_server()));
            let (terms, mut messages) = listening();
            let answered = told(harness.engine.call(call(&requester, "write", terms)).await);
            assert!(answered.contains("did not ask"), "{answered}");
            assert!(messages.try_recv().is_err(), "the client is not asked");
            assert!(refusal_on_record(&harness).contains("`form`"));
        }
    }
}

#[tokio::test]
async fn a_modern_server_that_may_not_ask_ends_its_call() {
    for snapshot in [by_policy, by_contract] {
        for requester in everybody() {
            let harness = harness(snapshot(&modern_server()));
            let CallAnswer::Result(answered) =
                harness.engine.call(call(&requester, "write", RequestTerms::default())).await
            else {
                panic!("the question was passed on");
            };
            let answered = crate::answers::tool_result::with_full_detail(answered);
            assert!(answered.json.contains("does not permit questions of the kind `form`"), "{}", answered.json);
            assert!(refusal_on_record(&harness).contains("`form`"));
        }
    }
}

#[tokio::test]
async fn what_is_permitted_is_on_record_too() {
    let harness = EngineHarness::new(ExposedNaming::Bare, &[("up", modern_server())]);
    let answer = harness.engine.call(call(&everybody()[1], "write", RequestTerms::default())).await;
    assert!(matches!(answer, CallAnswer::InputRequired(_)));
    let records = harness.records.finished.lock().unwrap();
    assert_eq!(records[0].questions.len(), 1);
    assert_eq!((records[0].questions[0].kind, &records[0].questions[0].refused), (Some(QuestionKind::Form), &None));
}
