//! Modern clients that can show a page: they get the address of the ticket, and what they answer decides nothing (T32).

use servanda_effects::effect::{EffectQuery, EffectStore as _};
use servanda_mcp::ClientCapabilities;

use super::*;
use crate::testing::{again, parse};

const CONSOLE: &str = "https://console.example";

fn with_page() -> ApprovalSettings {
    ApprovalSettings { console_url: Some(CONSOLE.to_owned()), ..settings() }
}

impl Office {
    /// Ada's agent, whose client declares these capabilities.
    fn client(&self, era: Era, capabilities: &str) -> Requester {
        let raw = serde_json::value::RawValue::from_string(capabilities.to_owned()).unwrap();
        Requester { era, capabilities: ClientCapabilities::parse(Some(&raw)), ..self.agent() }
    }

    async fn call_with(&self, requester: &Requester, terms: RequestTerms) -> CallAnswer {
        self.harness.engine.call(call(requester, "write", terms)).await
    }

    /// What a client that can show a page is asked.
    async fn asked(&self) -> Value {
        let client = self.client(Era::Modern, r#"{"elicitation":{"url":{}}}"#);
        match self.call_with(&client, RequestTerms::default()).await {
            CallAnswer::InputRequired(json) => parse(&json),
            other => panic!("not asked: {other:?}"),
        }
    }
}

/// T32: an answer to an elicitation is no decision, whatever it says and however often it is given.
#[tokio::test]
async fn t32_a_client_that_accepts_everything_gets_no_effect() {
    let office = Office::with_settings(with_page(), |_| {});
    let client = office.client(Era::Modern, r#"{"elicitation":{"form":{},"url":{}},"sampling":{}}"#);
    for answer in [
        json!({"approval": {"action": "accept"}}),
        json!({"approval": {"action": "accept", "content": {"approved": true, "verdict": "approve"}}}),
        json!({"approval": {"action": "decline"}}),
        json!({"approval": {"action": "cancel"}}),
        json!({"approval": true, "approve": {"action": "accept"}}),
        json!({}),
    ] {
        let asked = office.asked().await;
        for _ in 0..2 {
            let terms = again(&asked["requestState"], &answer);
            let told = office.call_with(&client, terms).await;
            assert!(matches!(&told, CallAnswer::Result(result) if result.is_error), "{answer}: {told:?}");
            let refusal = office.harness.last_record().refusal.unwrap();
            assert!(refusal.message.contains("waits for approval"), "{answer}: {refusal:?}");
        }
    }
    let ticket = office.ticket(&office.ticket_id()).await;
    assert_eq!((ticket.state, ticket.decisions.len(), office.sent()), (TicketState::Pending, 0, 0));
    assert!(
        office
            .harness
            .effects
            .effects
            .list(EffectQuery { limit: 9, ..EffectQuery::default() })
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn the_page_is_the_ticket_s_and_the_same_call_is_done_once_people_approved() {
    let office = Office::with_settings(with_page(), |_| {});
    let asked = office.asked().await;
    let id = office.ticket_id();
    let question = &asked["inputRequests"]["approval"];
    assert_eq!((&question["method"], &question["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
    assert_eq!(question["params"]["url"], format!("{CONSOLE}/approvals/{id}"), "the address carries no right");
    assert!(question["params"].get("requestedSchema").is_none(), "a form could be filled in by the client");
    let record = office.harness.last_record();
    assert_eq!(
        (record.outcome, record.dispatched_at, record.finished_at.is_some()),
        (Outcome::InputRequired, None, true)
    );
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 1);

    office.approve(&person("olga"), &id).await.unwrap();
    let client = office.client(Era::Modern, r#"{"elicitation":{"url":{}}}"#);
    let declined = again(&asked["requestState"], &json!({"approval": {"action": "decline"}}));
    content(office.call_with(&client, declined).await);
    assert_eq!((office.sent(), office.ticket(&id).await.state), (1, TicketState::Consumed));
    // The state is for these bytes alone, and names no upstream.
    let other = CallRequest {
        arguments: Bytes::from_static(br#"{"text":"other"}"#),
        ..call(&client, "write", again(&asked["requestState"], &json!({})))
    };
    assert!(matches!(office.harness.engine.call(other).await, CallAnswer::Failed(_)));
    assert_eq!(office.sent(), 1);
}

#[tokio::test]
async fn other_clients_wait_and_get_the_ticket() {
    let page = Office::with_settings(with_page(), |_| {});
    let no_page = Office::new(|_| {});
    let url = r#"{"elicitation":{"url":{}}}"#;
    let cases = [
        (&page, Era::Legacy, url),
        (&page, Era::Modern, r#"{"elicitation":{}}"#),
        (&page, Era::Modern, r#"{"elicitation":{"form":{}}}"#),
        (&page, Era::Modern, "{}"),
        (&no_page, Era::Modern, url),
    ];
    for (office, era, capabilities) in cases {
        let told = office.call_with(&office.client(era, capabilities), RequestTerms::default()).await;
        assert!(matches!(&told, CallAnswer::Result(result) if result.is_error), "{era:?} {capabilities}: {told:?}");
        assert_eq!(office.harness.last_record().outcome, Outcome::Refused);
    }
    assert_eq!((page.sent(), no_page.sent()), (0, 0));
}
