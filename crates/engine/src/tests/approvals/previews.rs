//! Dry runs of calls that need an approval: they say how far the approval has come, open no ticket and use none up. And the upstream's own
//! dry run, which is asked once for each ticket and shown to people as data.

use servanda_approval::{ApprovalPacket, PacketFlag};
use servanda_contract::{Digest, digest::DigestDomain, preview::UpstreamPreview};
use servanda_effects::ticket_store::TicketQuery;
use servanda_upstream::{Answer, PerformFailure};

use super::*;
use crate::{
    testing::said,
    tests::{
        effects::died,
        previews::{dry, preview},
    },
};

/// What the server's own dry run says of a text. It never counts as sent.
pub(super) async fn said_of(text: Option<&str>) -> Result<Answer, PerformFailure> {
    let answer = |data: Value| Ok(said(Era::Modern, &json!({ "content": [], "structuredContent": data })));
    match text {
        Some("away") => Err(died()),
        Some("silent") => std::future::pending().await,
        Some("huge") => answer(json!({ "would": "x".repeat(20_000) })),
        Some("named") => answer(json!({ "would": { "named": 1 } })),
        Some("hostile") => answer(json!({ "<b>note</b>": "APPROVE THIS\u{202e}\n# Heading", "b": 1 })),
        text => answer(json!({ "would": format!("write {}", text.unwrap_or_default()), "rows": 1 })),
    }
}

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

impl Office {
    fn with_upstream_dry_run(change: impl FnOnce(&mut ToolContract)) -> Self {
        Self::new(|contract| {
            let terms = json!({ "dry_run": { "argument": "simulate", "value": true } });
            contract.approval = Some(serde_json::from_value(terms).unwrap());
            change(contract);
        })
    }

    /// The ticket that a call with this text opens.
    async fn ticket_for(&self, text: &str) -> Ticket {
        let arguments = Bytes::from(json!({ "text": text }).to_string());
        self.refusal_of(CallRequest { arguments, ..self.request() }).await;
        self.ticket(&self.ticket_id()).await
    }

    /// How often the server's own dry run was asked.
    fn simulated(&self) -> usize {
        self.server.heard().iter().filter(|heard| heard.contains("\"simulate\":true")).count()
    }
}

fn packet_of(ticket: &Ticket) -> ApprovalPacket {
    ApprovalPacket::new(ticket, |_| true, ticket.created_ms)
}

#[tokio::test]
async fn a_ticket_shows_what_the_server_s_own_dry_run_says_and_nothing_is_done() {
    let office = Office::with_upstream_dry_run(|_| {});
    let ticket = office.ticket_for("hello").await;
    let said = json!({ "rows": 1, "would": "write hello" });
    assert_eq!(ticket.subject.upstream_preview.as_ref().unwrap().preview, UpstreamPreview::Said(said));
    let shown = packet_of(&ticket).upstream_preview.unwrap();
    let canonical = br#"{"rows":1,"would":"write hello"}"#;
    assert_eq!(shown.digest, Some(Digest::compute(DigestDomain::Shown, &[canonical])));
    assert_eq!(shown.fields.canonical.unwrap().as_bytes(), canonical);
    assert!(shown.source.starts_with("up at "), "{}", shown.source);
    // A repetition joins the ticket and asks nothing again; the approved call goes without the argument.
    office.refused().await;
    assert_eq!((office.simulated(), office.sent()), (1, 0), "it changed nothing");
    office.approve(&person("olga"), &ticket.id).await.unwrap();
    content(office.call().await);
    assert_eq!((office.simulated(), office.sent()), (1, 1));
    assert_eq!(office.ticket(&ticket.id).await.state, TicketState::Consumed);
    // A denial is an answer, and nothing is asked while it holds.
    office.refused().await;
    office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
    let asked = office.simulated();
    office.refused().await;
    assert_eq!(office.simulated(), asked);
    office.clock.pass_ms(3_600_000);
    office.refused().await;
    assert_eq!(office.simulated(), asked + 1, "another ticket asks anew");
    let plain = Office::new(|_| {});
    assert_eq!(
        plain.ticket_for("hello").await.subject.upstream_preview,
        None,
        "a contract without a dry run asks nothing"
    );
    assert_eq!(plain.server.heard(), Vec::<String>::new());
}

/// A server that cannot say does not keep people from deciding; the packet says so.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_say_does_not_block_the_question() {
    for (text, why) in [("away", "reset"), ("huge", "too long"), ("silent", "no answer in time")] {
        let office = Office::with_upstream_dry_run(|_| {});
        let ticket = office.ticket_for(text).await;
        assert_eq!(ticket.state, TicketState::Pending);
        let packet = packet_of(&ticket);
        assert!(packet.flags.contains(&PacketFlag::NoUpstreamPreview), "{text}: {:?}", packet.flags);
        let shown = packet.upstream_preview.unwrap();
        assert!(shown.fault.as_deref().is_some_and(|fault| fault.contains(why)), "{text}: {:?}", shown.fault);
        assert_eq!((shown.digest, office.sent()), (None, 0));
        office.approve(&person("olga"), &ticket.id).await.unwrap();
    }
}

#[tokio::test]
async fn what_the_server_says_is_data_and_sensitive_parts_of_it_are_masked() {
    let office = Office::with_upstream_dry_run(|_| {});
    let shown = packet_of(&office.ticket_for("hostile").await).upstream_preview.unwrap();
    let leaf = &shown.fields.leaves[0];
    assert_eq!((leaf.pointer.as_str(), leaf.value.as_str()), ("/<b>note<~1b>", "APPROVE THIS<U+202E>\n# Heading"));
    assert!(!leaf.warnings.is_empty(), "{leaf:?}");

    let office = Office::with_upstream_dry_run(|contract| {
        contract.affordance.input_schema["properties"]["text"]["x-sensitivity"] = json!("personal");
    });
    let ticket = office.ticket_for("hello").await;
    let masked = ApprovalPacket::new(&ticket, |_| false, ticket.created_ms);
    let text = serde_json::to_string(&masked).unwrap();
    assert!(!text.contains("hello") && text.contains("••••••"), "{text}");
    let fields = masked.upstream_preview.unwrap().fields;
    assert_eq!((fields.masked, fields.canonical), (1, None));
    let named = packet_of(&office.ticket_for("named").await).upstream_preview.unwrap();
    assert!(named.fault.unwrap().contains("a sensitive argument as a name"), "a name cannot be masked");
}

/// Another byte is another ticket, and the server is asked no more often than the contract's rate.
#[tokio::test]
async fn tickets_ask_the_server_no_more_often_than_its_rate() {
    let office = Office::with_upstream_dry_run(|contract| contract.runtime.rate_limits.max_requests = 2);
    for number in 0..5 {
        let ticket = office.ticket_for(&format!("text {number}")).await;
        let shown = packet_of(&ticket).upstream_preview.unwrap();
        let too_often = shown.fault.is_some_and(|fault| fault.contains("too often"));
        assert_eq!(too_often, number >= 2, "{number}");
    }
    assert_eq!((office.simulated(), office.sent()), (2, 0));
}
