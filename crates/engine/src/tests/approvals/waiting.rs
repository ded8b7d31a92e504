//! Callers that wait for people, for a bounded time.

use super::*;

fn patient() -> ApprovalSettings {
    ApprovalSettings { wait_ms_max: 60_000, ..settings() }
}

#[tokio::test]
async fn a_call_that_waits_is_answered_when_it_is_approved() {
    let office = Arc::new(Office::with_settings(patient(), |_| {}));
    let (sink, mut told) = tokio::sync::mpsc::channel(16);
    let terms = RequestTerms { messages: Some(sink), wants_progress: true, ..RequestTerms::default() };
    let request = call(&office.agent(), "write", terms);
    let waiting = {
        let office = Arc::clone(&office);
        tokio::spawn(async move { office.harness.engine.call(request).await })
    };
    let Some(crate::ClientMessage::Progress(progress)) = told.recv().await else { panic!("no progress") };
    assert!(progress.get().contains("waiting for approval by an approver"), "{progress}");
    let pending = office.harness.engine.approvals().tickets();
    let query = servanda_effects::ticket_store::TicketQuery::pending(Some("acme".to_owned()));
    let id = pending.list_tickets(query).await.unwrap().remove(0).id;
    assert_eq!(office.sent(), 0);
    office.approve(&person("olga"), &id).await.unwrap();
    let done = content(waiting.await.unwrap());
    assert_eq!(done["content"][0]["text"], "done");
    assert_eq!((office.sent(), office.ticket(&id).await.state), (1, TicketState::Consumed));
}

#[tokio::test]
async fn a_call_that_waits_is_answered_when_it_is_denied_or_given_up() {
    for is_denied in [true, false] {
        let office = Arc::new(Office::with_settings(patient(), |_| {}));
        let request = office.request();
        let cancel = request.terms.cancel.clone();
        let waiting = {
            let office = Arc::clone(&office);
            tokio::spawn(async move { office.harness.engine.call(request).await })
        };
        let tickets = office.harness.engine.approvals().tickets();
        let id = loop {
            let query = servanda_effects::ticket_store::TicketQuery::pending(None);
            match tickets.list_tickets(query).await.unwrap().first() {
                Some(ticket) => break ticket.id.clone(),
                None => tokio::task::yield_now().await,
            }
        };
        if is_denied {
            office.decide(&person("olga"), &id, ApprovalVerdict::Deny).await.unwrap();
        } else {
            cancel.cancel();
        }
        let answer = waiting.await.unwrap();
        assert!(matches!(answer, CallAnswer::Result(result) if result.is_error), "{is_denied}");
        assert_eq!(office.sent(), 0);
        let expected = if is_denied { TicketState::Denied } else { TicketState::Pending };
        assert_eq!(office.ticket(&id).await.state, expected);
    }
}

/// An agent that waits for less than the gateway would is answered in time.
#[tokio::test]
async fn a_caller_that_waits_for_less_is_answered_in_time() {
    let office = Office::with_settings(patient(), |_| {});
    let terms = RequestTerms { caller_wait_ms: Some(100), ..RequestTerms::default() };
    let refusal = office.refusal_of(call(&office.agent(), "write", terms)).await;
    assert!(refusal.message.contains("waits for approval"), "{refusal:?}");
}
