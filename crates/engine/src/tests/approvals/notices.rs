//! Who is told about a ticket, when, and what a message contains. Messages are read from the outbox.

use servanda_approval::{TicketKey, TicketNoticeKind, TicketRequest, TicketSubject};
use servanda_contract::{Digest, digest::DigestDomain};
use servanda_effects::InMemoryNotebook;
use servanda_upstream::WebhookAddress;

use super::*;
use crate::{
    approval_notices::look_at_due,
    callbacks::{ApprovalWebhook, CallbackDelivery, Callbacks, WebhookFormat, WebhookReceiver, deliveries},
};

const HOUR_MS: u64 = 3_600_000;

fn webhook(name: &str) -> ApprovalWebhook {
    let address = WebhookAddress::parse("https://chat.example/hook").unwrap();
    ApprovalWebhook {
        name: name.to_owned(),
        tenant: None,
        groups: BTreeSet::new(),
        on: TicketNoticeKind::ALL.into(),
        format: WebhookFormat::Standard,
        receiver: WebhookReceiver { address, secret: None },
    }
}

fn told_by(webhooks: Vec<ApprovalWebhook>, change: impl FnOnce(&mut ToolContract)) -> Office {
    let settings = ApprovalSettings { console_url: Some("https://gateway.example".to_owned()), ..settings() };
    let mut office = Office::new(|_| {});
    let mut snapshot = world(&office.server, settings, vec![contract(change)]);
    snapshot.callbacks = Arc::new(Callbacks::new(Vec::new(), webhooks));
    office.harness = EngineHarness::in_snapshot(snapshot, Arc::new(InMemoryNotebook::default()), office.clock.clone());
    office
}

impl Office {
    async fn outbox(&self) -> Vec<CallbackDelivery> {
        deliveries(self.harness.engine.notebook().as_ref(), self.clock.now()).await.unwrap()
    }

    /// The types of the messages to one receiver, and the receivers of all messages.
    async fn messages(&self, name: &str) -> Vec<String> {
        let outbox = self.outbox().await;
        let own = outbox.iter().filter(|delivery| delivery.callback == name);
        let mut types: Vec<String> = own.map(|delivery| delivery.event_type.clone()).collect();
        types.sort();
        types
    }

    async fn time_passes(&self, ms: u64) {
        self.clock.pass_ms(ms);
        look_at_due(self.harness.engine.core()).await.unwrap();
    }
}

#[tokio::test]
async fn people_are_told_of_the_opening_the_end_of_the_time_and_the_outcome_once() {
    let office = told_by(vec![webhook("chat")], |_| {});
    office.refused().await;
    office.refused().await;
    assert_eq!(office.messages("chat").await, ["approval.opened"], "a repetition opens nothing");
    office.time_passes(HOUR_MS).await;
    assert_eq!(office.messages("chat").await.len(), 1);
    office.time_passes(17 * HOUR_MS).await;
    office.time_passes(1_000).await;
    assert_eq!(office.messages("chat").await, ["approval.opened", "approval.reminder"]);
    office.approve(&person("olga"), &office.ticket_id()).await.unwrap();
    office.time_passes(1_000).await;
    office.time_passes(1_000).await;
    assert_eq!(office.messages("chat").await, ["approval.opened", "approval.outcome", "approval.reminder"]);
    assert_eq!(office.sent(), 0, "a message decides nothing");
}

/// The gateway died before it told people, or its store was away: another look tells them.
#[tokio::test]
async fn an_opening_that_was_not_told_is_told_later() {
    let office = told_by(vec![webhook("chat")], |_| {});
    office.refused().await;
    let ticket = office.ticket(&office.ticket_id()).await;
    let payload = Digest::compute(DigestDomain::Payload, &[b"another call"]);
    let subject = TicketSubject { payload, ..ticket.subject };
    let request = TicketRequest { id: TicketId::new(), key: TicketKey::from(payload), subject, demand: ticket.demand };
    office.harness.engine.approvals().request(request).await.unwrap();
    assert_eq!(office.messages("chat").await.len(), 1, "the gateway dies here");
    office.time_passes(4_000).await;
    assert_eq!(office.messages("chat").await.len(), 1, "it has a few seconds");
    office.time_passes(1_000).await;
    assert_eq!(office.messages("chat").await, ["approval.opened", "approval.opened"]);
}

#[tokio::test]
async fn messages_go_to_the_tenant_and_the_groups_that_decide() {
    let of = |name: &str, tenant: Option<&str>, groups: &[&str]| ApprovalWebhook {
        tenant: tenant.map(str::to_owned),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..webhook(name)
    };
    let only_outcomes = ApprovalWebhook { on: [TicketNoticeKind::Outcome].into(), ..webhook("outcomes") };
    let all = vec![
        of("all", None, &[]),
        of("acme", Some("acme"), &[]),
        of("umbrella", Some("umbrella"), &[]),
        of("finance", None, &["finance", "sales"]),
        of("leads", None, &["leads"]),
        only_outcomes,
    ];
    let office = told_by(all, |contract| {
        let approval = json!({"groups": ["finance"]});
        contract.approval = Some(serde_json::from_value(approval).unwrap());
    });
    office.refused().await;
    let mut told: Vec<String> = office.outbox().await.into_iter().map(|delivery| delivery.callback).collect();
    told.sort();
    assert_eq!(told, ["acme", "all", "finance"]);
}

/// A message is no right and has no arguments; what the contract says about them is left out where one is sensitive.
#[tokio::test]
async fn a_message_has_a_link_and_no_argument() {
    let chats = [WebhookFormat::Standard, WebhookFormat::Slack, WebhookFormat::Teams];
    let webhooks: Vec<ApprovalWebhook> = chats
        .into_iter()
        .map(|format| ApprovalWebhook { format, ..webhook(&format!("{format:?}").to_lowercase()) })
        .collect();
    for is_sensitive in [false, true] {
        let office = told_by(webhooks.clone(), |contract| {
            let approval = json!({"consequence": "Writes <!channel> *{text}* & more"});
            contract.approval = Some(serde_json::from_value(approval).unwrap());
            if is_sensitive {
                let schema = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "description": "Any.", "x-sensitivity": "pii"}}});
                contract.affordance.input_schema = schema.as_object().unwrap().clone().into();
            }
        });
        let request = CallRequest { arguments: Bytes::from_static(br#"{"text":"canary-7"}"#), ..office.request() };
        office.refusal_of(request).await;
        let id = office.ticket_id();
        let outbox = office.outbox().await;
        assert_eq!(outbox.len(), 3);
        for delivery in outbox {
            assert!(delivery.body.contains(&format!("https://gateway.example/approvals/{id}")), "{}", delivery.body);
            assert_eq!(delivery.body.contains("canary-7"), !is_sensitive, "{}", delivery.body);
        }
    }
}
