//! Answers that come after the deadline of their call, in virtual time.

use std::time::Duration;

use serde_json::{Value, json};
use servanda_contract::{
    record::{LATE_ANSWER_CLIENT, Outcome},
    refusal::EffectKnowledge,
};
use servanda_effects::effect::EffectState;
use servanda_mcp::Era;
use servanda_upstream::PerformFailure;

use super::{
    conversations::result,
    effects::{Bank, keyed, refusal},
};
use crate::testing::{ScriptedRequest, said};

const TIMEOUT_MS: u64 = 300;
const ANSWER_MS: u64 = 900;

/// A bank whose server misses the deadline and answers later, if at all.
fn slow(answer: Option<Value>) -> Bank {
    let timeout = |contract: &mut servanda_contract::ToolContract| contract.runtime.timeout_ms = TIMEOUT_MS;
    Bank::writing(timeout, move |heard: ScriptedRequest| {
        let answer = answer.clone();
        async move {
            let (deadline, late) = (heard.delivery.deadline, heard.delivery.late);
            let late = late.expect("a change wants to know how it ended");
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(ANSWER_MS)).await;
                if let Some(answer) = answer {
                    let _ = late.send(Ok(said(Era::Modern, &answer)));
                }
            });
            tokio::time::sleep_until(deadline).await;
            Err(PerformFailure::TimedOut { note: None })
        }
    })
}

async fn pass_time() {
    tokio::time::sleep(Duration::from_millis(2 * ANSWER_MS)).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_settles_the_effect_and_is_replayed() {
    for (is_error, state) in [(false, EffectState::Completed), (true, EffectState::FailedFinal)] {
        let bank = slow(Some(json!({"content": [{"type": "text", "text": "late"}], "isError": is_error})));
        let unknown = refusal(bank.call(keyed("order-7")).await);
        assert_eq!(unknown.effect, EffectKnowledge::Unknown);
        assert_eq!(bank.states().await, [EffectState::OutcomeUnknown], "the outcome is unknown until the answer comes");
        pass_time().await;
        assert_eq!(bank.states().await, [state]);
        let effect = bank.effects().await.remove(0);
        assert!(effect.reason.as_deref().is_some_and(|reason| reason.contains("after the deadline")), "{effect:?}");
        let again = result(bank.call(keyed("order-7")).await);
        assert_eq!(again["content"][0]["text"], "late");
        assert_eq!(bank.calls(), 1, "it was sent once");
        let records = bank.harness.records.finished.lock().unwrap().clone();
        let late = records.iter().find(|record| record.caller.client.as_deref() == Some(LATE_ANSWER_CLIENT));
        let late = late.expect("the answer is on record");
        assert_eq!(late.continues.as_ref(), Some(&unknown.call_id));
        assert_eq!(late.outcome, if is_error { Outcome::ToolError } else { Outcome::Completed });
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_it_stays_unknown() {
    let bank = slow(None);
    assert_eq!(refusal(bank.call(keyed("order-7")).await).effect, EffectKnowledge::Unknown);
    pass_time().await;
    assert_eq!(bank.states().await, [EffectState::OutcomeUnknown]);
    assert_eq!(refusal(bank.call(keyed("order-7")).await).effect, EffectKnowledge::Unknown);
    assert_eq!(bank.calls(), 1);
}

/// As with an answer in time: the change happened, and the invalid answer is quarantined.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_checked_like_any_other() {
    let bank = slow(Some(json!({"content": "no list of contents"})));
    assert_eq!(refusal(bank.call(keyed("order-7")).await).effect, EffectKnowledge::Unknown);
    pass_time().await;
    assert_eq!(bank.states().await, [EffectState::Completed]);
    let records = bank.harness.records.finished.lock().unwrap().clone();
    let late = records.iter().find(|record| record.caller.client.as_deref() == Some(LATE_ANSWER_CLIENT));
    assert_eq!(late.expect("what was kept back is on record").outcome, Outcome::Quarantined);
    let again = refusal(bank.call(keyed("order-7")).await);
    assert_eq!(again.effect, EffectKnowledge::Happened);
    assert_eq!(bank.calls(), 1);
}
