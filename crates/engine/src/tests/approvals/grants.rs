//! Grants through the whole engine: made from a ticket, drawn on by calls within the bounds, and by no other.

mod guards;
mod naming;
mod plans;
mod proposals;

use std::sync::Mutex;

use servanda_approval::{BoundFault, GrantEnd, GrantObstacle, Ineligible, TicketEvent};
use servanda_contract::tool::{ApprovalPattern, SideEffectClass};
use servanda_effects::{
    JournalError, PortFuture, TicketStore,
    ticket_store::{AppliedTicket, TicketQuery},
};
use tokio::task::JoinSet;

use super::*;
use crate::{
    approvals::{ApprovalParts, GrantFailure, GrantPreview, WantedBound, WantedGrant},
    tests::previews::{dry, preview},
};

const DAY_MS: u64 = 24 * 3_600_000;

/// A tool that pays, with a number and a path among its arguments.
fn paying(contract: &mut ToolContract) {
    let schema = json!({"type": "object", "required": ["to", "amount"], "additionalProperties": false, "properties": {
        "to": {"type": "string", "description": "Who."},
        "amount": {"type": "number", "description": "How much."},
        "path": {"type": "string", "description": "Where."}}});
    contract.affordance.input_schema = schema.as_object().unwrap().clone().into();
    let example = json!({"description": "a payment", "arguments": {"to": "bob", "amount": 1}});
    contract.affordance.examples = vec![serde_json::from_value(example).unwrap()];
}

impl Office {
    fn paying() -> Self {
        Self::new(paying)
    }

    fn pay(&self, arguments: &Value) -> CallRequest {
        CallRequest { arguments: Bytes::from(arguments.to_string()), ..self.request() }
    }

    async fn wanted(&self, id: &TicketId, uses_max: u32) -> WantedGrant {
        let payload = self.ticket(id).await.subject.payload;
        let (narrowed, further) = (std::collections::BTreeMap::new(), Vec::new());
        WantedGrant { ticket: id.clone(), payload, narrowed, further, uses_max, cost_max: None, days: 7 }
    }

    async fn grant(&self, who: &Person, wanted: &WantedGrant) -> Result<Ticket, GrantFailure> {
        let settings = self.harness.engine.authorities();
        self.harness.engine.approvals().make_grant(who, wanted, settings.approvals()).await
    }

    async fn revoke(&self, who: &Person, id: &TicketId) -> Result<Ticket, GrantFailure> {
        let settings = self.harness.engine.authorities();
        self.harness.engine.approvals().revoke_grant(who, id, "enough", settings.approvals()).await
    }

    /// Olga approves a call and allows calls like it from now on.
    async fn granted(&self, approved: &Value, uses_max: u32) -> TicketId {
        self.refusal_of(self.pay(approved)).await;
        let id = self.ticket_id();
        self.approve(&person("olga"), &id).await.unwrap();
        let made = self.grant(&person("olga"), &self.wanted(&id, uses_max).await).await.unwrap();
        assert!(made.grant.is_some());
        id
    }

    async fn draws(&self, id: &TicketId) -> usize {
        self.ticket(id).await.grant.unwrap().draws.len()
    }

    async fn asks_about(&self, arguments: &Value) {
        let sent = self.sent();
        let refusal = self.refusal_of(self.pay(arguments)).await;
        assert!(refusal.message.contains("waits for approval"), "{arguments}: {refusal:?}");
        assert_eq!(self.sent(), sent, "{arguments}");
    }
}

#[tokio::test]
async fn calls_within_the_bounds_are_made_and_all_others_are_asked_about() {
    let office = Office::paying();
    let approved = json!({"to": "bob", "amount": 100, "path": "/srv/bills/a.pdf"});
    let id = office.granted(&approved, 20).await;
    for (number, within) in [
        json!({"to": "bob", "amount": 99.5, "path": "/srv/bills/b.pdf"}),
        json!({"to": "bob", "amount": 0, "path": "/srv/bills/2026/c.pdf"}),
    ]
    .iter()
    .enumerate()
    {
        content(office.harness.engine.call(office.pay(within)).await);
        let record = office.harness.last_record();
        assert_eq!((office.sent(), office.draws(&id).await), (number + 1, number + 1), "{within}");
        assert_eq!(record.ticket_id.as_deref(), Some(id.as_str()));
        assert!(record.verdicts.iter().any(|verdict| verdict.gate == GateName::Confirmation));
        let standing = office.ticket(&id).await.grant.unwrap();
        assert_eq!(standing.use_of(&record.call_id), Some((number + 1, 20)));
        assert_eq!(standing.draws[number].effect_id, record.effect_id.unwrap());
    }
    for outside in [
        json!({"to": "eve", "amount": 1, "path": "/srv/bills/a.pdf"}),
        json!({"to": "bob", "amount": 101, "path": "/srv/bills/a.pdf"}),
        json!({"to": "bob", "amount": -1, "path": "/srv/bills/a.pdf"}),
        json!({"to": "bob", "amount": 1, "path": "/srv/bills/../a.pdf"}),
        json!({"to": "bob", "amount": 1}),
    ] {
        office.asks_about(&outside).await;
    }
    assert_eq!(office.draws(&id).await, 2);
    // The approval of the call itself is used by that call, and draws nothing.
    content(office.harness.engine.call(office.pay(&approved)).await);
    assert_eq!((office.draws(&id).await, office.ticket(&id).await.state), (2, TicketState::Consumed));
    // Made again, it is one more call like the approved one.
    content(office.harness.engine.call(office.pay(&approved)).await);
    assert_eq!((office.draws(&id).await, office.sent()), (3, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_forty_calls_at_once_a_grant_for_three_lets_three_through() {
    let office = Arc::new(Office::paying());
    let id = office.granted(&json!({"to": "bob", "amount": 100}), 3).await;
    let mut calls = JoinSet::new();
    for number in 0..40 {
        let office = Arc::clone(&office);
        calls.spawn(async move {
            let request = office.pay(&json!({"to": "bob", "amount": number}));
            matches!(office.harness.engine.call(request).await, CallAnswer::Result(result) if !result.is_error)
        });
    }
    let done = calls.join_all().await.into_iter().filter(|done| *done).count();
    assert_eq!((done, office.sent(), office.draws(&id).await), (3, 3, 3));
}

#[tokio::test]
async fn a_grant_ends_by_use_by_time_and_by_revocation() {
    let call = json!({"to": "bob", "amount": 1});
    let office = Office::paying();
    let id = office.granted(&json!({"to": "bob", "amount": 100}), 1).await;
    content(office.harness.engine.call(office.pay(&call)).await);
    office.asks_about(&json!({"to": "bob", "amount": 2})).await;
    assert_eq!(office.draws(&id).await, 1);

    let office = Office::paying();
    office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
    office.clock.pass_ms(7 * DAY_MS - 1_000);
    content(office.harness.engine.call(office.pay(&call)).await);
    office.clock.pass_ms(1_000);
    office.asks_about(&json!({"to": "bob", "amount": 2})).await;

    let office = Office::paying();
    let id = office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
    assert_eq!(office.revoke(&person("vera"), &id).await, Err(GrantFailure::NotTheirs));
    let stranger = Person { tenant: "umbrella".to_owned(), ..person("olga") };
    assert_eq!(office.revoke(&stranger, &id).await, Err(GrantFailure::NoTicket(id.clone())));
    let revoked = office.revoke(&person("oscar"), &id).await.unwrap();
    assert_eq!(revoked.grant.unwrap().revoked.unwrap().by, "oscar");
    office.asks_about(&call).await;
    assert_eq!(office.revoke(&person("oscar"), &id).await, Err(GrantFailure::Over(GrantEnd::Revoked)));
}

#[tokio::test]
async fn what_changes_in_between_makes_people_decide_again() {
    type Change = (&'static str, fn(&mut ApprovalSettings), fn(&mut ToolContract));
    let changes: [Change; 7] = [
        ("another version of the contract", |_| {}, |contract| contract.identity.version = "9.9.9".to_owned()),
        (
            "the maker lost the role",
            |settings| {
                settings.roles = RoleAssignments::default().with(PersonRole::Approver, [member("acme/oscar")]);
            },
            |_| {},
        ),
        ("no grants any more", |settings| settings.grant_days_max = 0, |_| {}),
        (
            "a higher quorum",
            |_| {},
            |contract| {
                contract.approval = Some(serde_json::from_value(json!({"pattern": "dual"})).unwrap());
            },
        ),
        (
            "another pattern",
            |_| {},
            |contract| {
                contract.approval = Some(serde_json::from_value(json!({"pattern": "compliance"})).unwrap());
            },
        ),
        (
            "a stronger presence",
            |_| {},
            |contract| {
                contract.approval = Some(serde_json::from_value(json!({"presence": "passkey"})).unwrap());
            },
        ),
        (
            "a critical change",
            |_| {},
            |contract| {
                contract.transactional.side_effect_class = SideEffectClass::CriticalMutation;
            },
        ),
    ];
    for (name, change_settings, change_contract) in changes {
        let office = Office::paying();
        office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
        content(office.harness.engine.call(office.pay(&json!({"to": "bob", "amount": 1}))).await);
        let mut now = settings();
        change_settings(&mut now);
        office
            .change(now, |contract| {
                paying(contract);
                change_contract(contract);
            })
            .await;
        let refusal = office.refusal_of(office.pay(&json!({"to": "bob", "amount": 2}))).await;
        assert!(refusal.message.contains("waits for approval"), "{name}: {refusal:?}");
        assert_eq!(office.sent(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_denial_of_the_very_call_wins_and_so_does_a_stopped_run() {
    let office = Office::paying();
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 5}))).await;
    let denied = office.ticket_id();
    office.decide(&person("olga"), &denied, ApprovalVerdict::Deny).await.unwrap();
    office.clock.pass_ms(1_000);
    let id = office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
    let refusal = office.refusal_of(office.pay(&json!({"to": "bob", "amount": 5}))).await;
    assert!(refusal.message.contains("a person denied"), "{refusal:?}");
    assert_eq!((office.sent(), office.ticket_id()), (0, denied));
    content(office.harness.engine.call(office.pay(&json!({"to": "bob", "amount": 6}))).await);
    for amount in [201, 202, 203] {
        office.clock.pass_ms(1_000);
        office.refusal_of(office.pay(&json!({"to": "bob", "amount": amount}))).await;
        office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
    }
    let refusal = office.refusal_of(office.pay(&json!({"to": "bob", "amount": 7}))).await;
    assert!(refusal.message.contains("people denied several calls of this run"), "{refusal:?}");
    assert_eq!((office.sent(), office.draws(&id).await), (1, 1));
}

#[tokio::test]
async fn who_asked_makes_no_grant_and_no_bound_gets_wider() {
    let office = Office::paying();
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 100}))).await;
    let id = office.ticket_id();
    let wanted = office.wanted(&id, 20).await;
    assert_eq!(
        office.grant(&person("olga"), &wanted).await,
        Err(GrantFailure::Obstacle(GrantObstacle::NotApproved)),
        "not before people approved it"
    );
    office.approve(&person("olga"), &id).await.unwrap();
    let narrowed = |pointer: &str, bound: WantedBound| WantedGrant {
        narrowed: [(pointer.to_owned(), bound)].into(),
        ..wanted.clone()
    };
    let bound = |pointer: &str, fault| Err(GrantFailure::Bound { pointer: pointer.to_owned(), fault });
    let text = |text: &str| WantedBound::Text(text.to_owned());
    let other = WantedGrant { payload: servanda_contract::Digest::from([1; 32]), ..wanted.clone() };
    for (who, wanted, expected) in [
        ("ada", &wanted, Err(GrantFailure::Ineligible(Ineligible::OwnRequest))),
        ("vera", &wanted, Err(GrantFailure::Ineligible(Ineligible::NoRole))),
        ("olga", &narrowed("/amount", text("101")), bound("/amount", BoundFault::Wider)),
        ("olga", &narrowed("/to", text("eve")), bound("/to", BoundFault::Unreadable)),
        ("olga", &narrowed("/other", text("1")), bound("/other", BoundFault::Unreadable)),
        ("olga", &WantedGrant { uses_max: 0, ..wanted.clone() }, Err(GrantFailure::Uses)),
        ("olga", &WantedGrant { uses_max: 101, ..wanted.clone() }, Err(GrantFailure::Uses)),
        ("olga", &WantedGrant { days: 8, ..wanted.clone() }, Err(GrantFailure::Days { days_max: 7 })),
        ("olga", &WantedGrant { days: 0, ..wanted.clone() }, Err(GrantFailure::Days { days_max: 7 })),
        ("olga", &other, Err(GrantFailure::OtherPayload)),
    ] {
        assert_eq!(office.grant(&person(who), wanted).await, expected, "{who} {wanted:?}");
    }
    office.grant(&person("oscar"), &narrowed("/amount", text("10"))).await.unwrap();
    office.asks_about(&json!({"to": "bob", "amount": 11})).await;
    content(office.harness.engine.call(office.pay(&json!({"to": "bob", "amount": 10}))).await);
    let again = office.grant(&person("oscar"), &wanted).await;
    assert_eq!(again, Err(GrantFailure::Obstacle(GrantObstacle::MadeAlready)));
}

#[tokio::test]
async fn the_user_allows_calls_of_the_own_agent_where_consent_is_enough() {
    let consent = |contract: &mut ToolContract| {
        paying(contract);
        contract.approval = Some(serde_json::from_value(json!({"pattern": ApprovalPattern::Consent})).unwrap());
    };
    let office = Office::new(consent);
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 100}))).await;
    let id = office.ticket_id();
    office.approve(&person("ada"), &id).await.unwrap();
    office.grant(&person("ada"), &office.wanted(&id, 20).await).await.unwrap();
    content(office.harness.engine.call(office.pay(&json!({"to": "bob", "amount": 1}))).await);
    // Another user's agent is asked about, as before.
    let other = crate::testing::requester_of("acme", "eve", office.clock.now());
    let request = CallRequest { requester: other, ..office.pay(&json!({"to": "bob", "amount": 1})) };
    assert!(office.refusal_of(request).await.message.contains("waits for approval"));
}

#[tokio::test]
async fn what_a_grant_would_have_done_is_counted_from_the_stored_tickets() {
    let office = Office::paying();
    for (amount, verdict) in [(50, ApprovalVerdict::Approve), (60, ApprovalVerdict::Deny), (200, ApprovalVerdict::Deny)]
    {
        office.refusal_of(office.pay(&json!({"to": "bob", "amount": amount}))).await;
        office.decide(&person("olga"), &office.ticket_id(), verdict).await.unwrap();
    }
    office.refusal_of(office.pay(&json!({"to": "eve", "amount": 1}))).await;
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 100}))).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    let (engine, wanted) = (&office.harness.engine, office.wanted(&id, 20).await);
    let (approvals, settings) = (engine.approvals(), engine.authorities());
    let (_, draft) = approvals.draft_grant(&person("olga"), &wanted, settings.approvals()).await.unwrap();
    let expected = GrantPreview { held: 5, covered: 3, denied: 2, denied_covered: 1, is_cut: false };
    assert_eq!(approvals.preview_grant(&draft).await.unwrap(), expected);
    assert!(office.ticket(&id).await.grant.is_none(), "a draft is not in force");
    office.clock.pass_ms(31 * DAY_MS);
    assert_eq!(approvals.preview_grant(&draft).await.unwrap(), GrantPreview::default(), "older than thirty days");
}

/// A store whose grants were changed by hand.
#[derive(Debug)]
struct TamperedGrants {
    inner: Arc<dyn TicketStore>,
    change: Mutex<Option<fn(&mut servanda_approval::StandingGrant)>>,
}

impl TicketStore for TamperedGrants {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        self.inner.apply_ticket(target, event)
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        Box::pin(async move {
            let mut found = self.inner.find_ticket(target).await?;
            if let (Some(change), Some(ticket)) = (*self.change.lock().unwrap(), &mut found)
                && let Some(standing) = &mut ticket.grant
            {
                change(standing);
            }
            Ok(found)
        })
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.inner.list_tickets(query)
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        self.inner.count_pending(tenant, limit)
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.inner.due_tickets(limit)
    }
}

#[tokio::test]
async fn a_grant_that_was_changed_in_the_store_covers_nothing() {
    type Change = fn(&mut servanda_approval::StandingGrant);
    let changes: [(&str, Change); 4] = [
        ("more money", |standing| {
            standing.signed.grant.cost_max = Some(servanda_approval::CostCeiling::read("9 EUR").unwrap());
        }),
        ("more calls", |standing| standing.signed.grant.calls[0].uses_max = 99),
        ("a wider bound", |standing| {
            standing.signed.grant.calls[0].bounds[0].rule = servanda_approval::BoundRule::AtMost("100000.0".to_owned());
        }),
        ("a longer time", |standing| standing.signed.grant.until_ms += DAY_MS),
    ];
    for (name, change) in changes {
        let mut office = Office::paying();
        let parts = office.harness.approvals.clone();
        let tampered = Arc::new(TamperedGrants { inner: parts.tickets.clone(), change: Mutex::new(None) });
        office.harness.approvals = ApprovalParts { tickets: tampered.clone(), keys: parts.keys };
        let snapshot = world(&office.server, settings(), vec![contract(paying), draft("up", "echo", false)]);
        office.harness = office.harness.restarted(snapshot, office.clock.clone());
        office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
        *tampered.change.lock().unwrap() = Some(change);
        // The gate sees it, before the store would.
        let refusal = office.refusal_of(office.pay(&json!({"to": "bob", "amount": 1}))).await;
        assert!(refusal.message.contains("waits for approval"), "{name}: {refusal:?}");
        assert_eq!(office.sent(), 0, "{name}");
    }
}

#[tokio::test]
async fn a_dry_run_says_that_a_grant_covers_the_call_and_draws_nothing() {
    let office = Office::paying();
    let id = office.granted(&json!({"to": "bob", "amount": 100}), 20).await;
    let covered = preview(office.harness.engine.call(dry(office.pay(&json!({"to": "bob", "amount": 1})))).await);
    assert_eq!((&covered["verdict"], &covered["approval"]["ticket"]), (&json!("would_pass"), &json!(id)), "{covered}");
    let outside = preview(office.harness.engine.call(dry(office.pay(&json!({"to": "eve", "amount": 1})))).await);
    assert_eq!(outside["verdict"], "would_wait_for_approval");
    assert_eq!((office.draws(&id).await, office.sent()), (0, 0));
}

#[tokio::test]
async fn the_list_has_the_newest_first_and_only_the_tenants_own() {
    let office = Office::paying();
    let first = office.granted(&json!({"to": "bob", "amount": 1}), 1).await;
    let second = office.granted(&json!({"to": "kim", "amount": 1}), 1).await;
    let approvals = office.harness.engine.approvals();
    let ids = |tickets: Vec<Ticket>| tickets.into_iter().map(|ticket| ticket.id).collect::<Vec<_>>();
    assert_eq!(ids(approvals.grants(Some("acme"), None, 50).await.unwrap()), [second.clone(), first.clone()]);
    assert_eq!(ids(approvals.grants(Some("acme"), Some(&second), 50).await.unwrap()), vec![first.clone()]);
    assert_eq!(ids(approvals.grants(Some("acme"), None, 1).await.unwrap()), vec![second.clone()]);
    assert_eq!(ids(approvals.grants(None, None, 50).await.unwrap()), [second, first]);
    assert_eq!(ids(approvals.grants(Some("acm"), None, 50).await.unwrap()), []);
    assert_eq!(ids(approvals.grants(Some("umbrella"), None, 50).await.unwrap()), []);
}
