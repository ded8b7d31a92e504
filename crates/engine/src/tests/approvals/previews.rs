//! Dry runs of calls that need an approval: they say how far the approval has come, open no ticket and use none up.

use servanda_effects::ticket_store::TicketQuery;

use super::*;
use crate::tests::previews::{dry, preview};

impl Office {
    async fn preview(&self) -> Value {
        preview(self.harness.engine.call(dry(self.request())).await)
    }

    async fn tickets(&self) -> usize {
        let all = TicketQuery { states: Vec::new(), ..TicketQuery::pending(None) };
        self.harness.engine.approvals().tickets().list_tickets(all).await.unwrap().len()
    }
}

#[tokio::test]
async fn a_dry_run_opens_no_ticket_and_uses_no_approval() {
    let office = Office::new(|contract| {
        let terms = json!({"consequence": "Writes {text}", "after": "{text} is written"});
        contract.approval = Some(serde_json::from_value(terms).unwrap());
    });
    let shown = office.preview().await;
    assert_eq!(
        (&shown["verdict"], &shown["approval"]["standing"]),
        (&json!("would_wait_for_approval"), &json!("not_asked"))
    );
    assert_eq!(shown["effects"]["consequence"], "Writes hello");
    assert_eq!(shown["effects"]["expected_after"], "hello is written");
    assert!(shown["summary"].as_str().unwrap().contains("would wait for approval by an approver"), "{shown}");
    assert_eq!((office.tickets().await, office.harness.last_record().ticket_id), (0, None));

    office.refused().await;
    let id = office.ticket_id();
    let pending = office.preview().await;
    assert_eq!((&pending["approval"]["standing"], &pending["approval"]["ticket"]), (&json!("pending"), &json!(id)));
    assert_eq!(office.harness.last_record().ticket_id.as_deref(), Some(id.as_str()));

    office.approve(&person("olga"), &id).await.unwrap();
    for _ in 0..2 {
        let approved = office.preview().await;
        assert_eq!(
            (&approved["verdict"], &approved["approval"]["standing"]),
            (&json!("would_pass"), &json!("approved"))
        );
    }
    assert_eq!((office.sent(), office.ticket(&id).await.state), (0, TicketState::Approved));
    content(office.call().await);
    assert_eq!((office.sent(), office.ticket(&id).await.state), (1, TicketState::Consumed));
    let after = office.preview().await;
    assert_eq!((&after["approval"]["standing"], office.tickets().await), (&json!("not_asked"), 1));
}

#[tokio::test]
async fn a_denial_an_ended_approval_and_a_higher_demand_are_told_apart() {
    let office = Office::new(|_| {});
    office.refused().await;
    office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
    let denied = office.preview().await;
    assert_eq!((&denied["verdict"], &denied["approval"]["standing"]), (&json!("would_be_refused"), &json!("denied")));
    assert!(denied["refusals"][0]["message"].as_str().unwrap().contains("a person denied"), "{denied}");
    office.clock.pass_ms(3_600_000);
    assert_eq!(office.preview().await["approval"]["standing"], "not_asked");

    office.refused().await;
    office.approve(&person("olga"), &office.ticket_id()).await.unwrap();
    assert_eq!(office.preview().await["approval"]["standing"], "approved");
    let without_olga = RoleAssignments::default().with(PersonRole::Approver, [member("acme/oscar")]);
    office.change(ApprovalSettings { roles: without_olga, ..settings() }, |_| {}).await;
    assert_eq!(office.preview().await["approval"]["standing"], "not_asked", "olga may no longer decide");
    office.change(settings(), |_| {}).await;
    assert_eq!(office.preview().await["approval"]["standing"], "approved");
    office.clock.pass_ms(600_000);
    assert_eq!(office.preview().await["approval"]["standing"], "not_asked", "the approval has lapsed");
    assert_eq!(office.sent(), 0);
}
