//! From the ticket to the end: approved and done once, denied, forgotten, lapsed.

use super::*;

#[tokio::test]
async fn an_approved_call_is_taken_up_by_the_same_bytes_and_done_once() {
    let office = Office::new(|_| {});
    let waiting = office.refused().await;
    assert_eq!((waiting.gate, waiting.error_code), (GateName::Confirmation, TaxonomyClass::ConfirmationMissing));
    assert_eq!((waiting.next_action, waiting.effect), (NextAction::RetryAfterDelay, EffectKnowledge::None));
    let id = office.ticket_id();
    assert_eq!(waiting.handle.as_deref(), Some(id.as_str()));
    assert!(waiting.message.contains("waits for approval by an approver"), "{}", waiting.message);
    office.refused().await;
    assert_eq!(office.ticket_id(), id, "a repetition joins the ticket");
    assert_eq!(office.sent(), 0);

    assert!(matches!(office.approve(&person("olga"), &id).await, Ok(DecisionOutcome::Approved(_))));
    let done = content(office.call().await);
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!(office.sent(), 1);
    let ticket = office.ticket(&id).await;
    assert_eq!(ticket.state, TicketState::Consumed);
    let record = office.harness.last_record();
    assert_eq!(record.ticket_id.as_deref(), Some(id.as_str()));
    assert_eq!(ticket.consumed.unwrap().effect_id, record.effect_id.unwrap());
    assert!(record.verdicts.iter().any(|verdict| verdict.gate == GateName::Confirmation));

    office.refused().await;
    assert_ne!(office.ticket_id(), id, "an approval is for one execution");
    assert_eq!(office.sent(), 1);
}

#[tokio::test]
async fn a_denial_reaches_the_agent_with_its_reason_and_holds_for_an_hour() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    assert!(matches!(office.decide(&person("olga"), &id, ApprovalVerdict::Deny).await, Ok(DecisionOutcome::Denied(_))));
    for _ in 0..2 {
        let denied = office.refused().await;
        assert!(denied.message.contains("a person denied `write`; the reason given: not this quarter"), "{denied:?}");
        assert_eq!((denied.next_action, denied.retryable), (NextAction::StopAndTellUser, false));
        assert_eq!(office.ticket_id(), id);
    }
    office.clock.pass_ms(3_600_000);
    let again = office.refused().await;
    assert!(again.message.contains("waits for approval"), "{again:?}");
    assert_eq!(office.ticket(&office.ticket_id()).await.continues, Some(id));
    assert_eq!(office.sent(), 0);
}

/// T5: time never approves, and silence is told apart from a no.
#[tokio::test]
async fn t5_a_ticket_that_is_forgotten_is_not_approved_and_not_denied() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    office.clock.pass_ms(24 * 3_600_000);
    let silence = office.refused().await;
    assert!(silence.message.contains("nobody decided about `write` in time"), "{silence:?}");
    assert_eq!((silence.next_action, silence.retryable), (NextAction::RetryAfterDelay, true));
    assert_eq!(office.approve(&person("olga"), &id).await, Err(DecideError::Over(TicketState::AutoDenied)));
    office.refused().await;
    let fresh = office.ticket(&office.ticket_id()).await;
    assert_eq!((fresh.state, fresh.continues), (TicketState::Pending, Some(id)));
    assert_eq!(office.sent(), 0);
}

#[tokio::test]
async fn t5_an_approval_that_is_not_used_in_time_lapses() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    office.clock.pass_ms(10 * 60_000);
    let lapsed = office.refused().await;
    assert!(lapsed.message.contains("was approved, but the approval was not used in time"), "{lapsed:?}");
    assert_eq!(office.ticket(&id).await.state, TicketState::Lapsed);
    office.refused().await;
    assert_ne!(office.ticket_id(), id);
    assert_eq!(office.sent(), 0);
}

#[tokio::test]
async fn two_different_people_are_needed_where_the_contract_says_dual() {
    let dual = |contract: &mut ToolContract| contract.approval = Some(terms(&json!({"pattern": "dual"})));
    let office = Office::new(dual);
    office.refused().await;
    let id = office.ticket_id();
    let first = office.approve(&person("olga"), &id).await.unwrap();
    assert!(matches!(first, DecisionOutcome::Recorded { missing: 1, .. }), "{first:?}");
    assert!(matches!(office.approve(&person("olga"), &id).await, Err(DecideError::Ineligible(_))));
    office.refused().await;
    assert_eq!(office.sent(), 0, "one person is not enough");
    assert!(matches!(office.approve(&person("oscar"), &id).await, Ok(DecisionOutcome::Approved(_))));
    content(office.call().await);
    assert_eq!(office.sent(), 1);
}

/// The answer of an operation that is done needs no second approval, and neither does a caller who asks how it stands.
#[tokio::test]
async fn the_answer_of_a_done_operation_is_replayed_without_another_ticket() {
    let office = Office::new(|_| {});
    let keyed = || {
        let keys = OperationKeys { idempotency_key: Some("k-1".to_owned()), ..OperationKeys::default() };
        CallRequest { keys, ..office.request() }
    };
    office.refusal_of(keyed()).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    content(office.harness.engine.call(keyed()).await);
    let again = content(office.harness.engine.call(keyed()).await);
    assert_eq!(again["content"][0]["text"], "done");
    assert_eq!(office.harness.last_record().outcome, Outcome::Replayed);
    assert_eq!(office.harness.last_record().ticket_id, None);
    assert_eq!(office.sent(), 1);
}

#[tokio::test]
async fn a_read_that_needs_approval_uses_it_up_too() {
    let office = Office::with_settings(settings(), |contract| {
        *contract = draft("up", "write", false);
        contract.approval = Some(terms(&json!({"required": true, "pattern": "consent"})));
    });
    office.refused().await;
    let id = office.ticket_id();
    // The user's own person may consent to a read of their agent.
    office.approve(&person("ada"), &id).await.unwrap();
    content(office.call().await);
    assert_eq!(office.ticket(&id).await.state, TicketState::Consumed);
    office.refused().await;
    assert_eq!(office.sent(), 1);
}

#[tokio::test]
async fn three_denials_in_a_row_stop_the_run() {
    let office = Office::new(|_| {});
    for number in 0..3 {
        let arguments = Bytes::from(json!({"text": number.to_string()}).to_string());
        office.refusal_of(CallRequest { arguments, ..office.request() }).await;
        office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
    }
    let stopped = office.refusal_of(office.request()).await;
    assert!(stopped.message.contains("people denied several calls of this run"), "{stopped:?}");
    assert_eq!(stopped.next_action, NextAction::StopAndTellUser);
    let other = CallRequest {
        keys: OperationKeys { run_id: Some("another".to_owned()), ..OperationKeys::default() },
        ..office.request()
    };
    assert!(office.refusal_of(other).await.message.contains("waits for approval"), "another run goes on");
    office.clock.pass_ms(3_600_000);
    assert!(office.refused().await.message.contains("waits for approval"));
}

/// The packet shows what the contract says, and the state that the contract's read tool shows.
#[tokio::test]
async fn a_person_sees_the_consequence_and_the_state_before() {
    let office = Office::new(|contract| {
        contract.approval = Some(terms(&json!({
            "consequence": "Writes {text} for good",
            "before": {"tool": "up.echo", "arguments": {"text": "{text}"}},
            "after": "{text} is written",
        })));
    });
    office.refused().await;
    let ticket = office.ticket(&office.ticket_id()).await;
    assert_eq!(ticket.subject.consequence.as_deref(), Some("Writes hello for good"));
    assert_eq!(ticket.subject.after.as_deref(), Some("hello is written"));
    assert_eq!(ticket.subject.before.as_ref().unwrap().tool, "up.echo");
    let heard = office.server.heard().len();
    office.refused().await;
    assert_eq!(office.server.heard().len(), heard, "the state is read once for each ticket");
    let packet = servanda_approval::ApprovalPacket::new(&ticket, |_| true, ticket.created_ms);
    assert!(packet.can_be_approved());
    assert_eq!(packet.arguments.leaves[0].value, "hello");
}

pub(super) fn terms(terms: &Value) -> servanda_contract::shared::Shared<servanda_contract::tool::ApprovalTerms> {
    serde_json::from_value(terms.clone()).unwrap()
}
