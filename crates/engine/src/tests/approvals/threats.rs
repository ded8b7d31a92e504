//! The threats of approvals, T1 to T5 and T22, each tried through the whole engine: nothing may reach the server.

use std::sync::Mutex;

use servanda_approval::{ApprovalDecision, SignedDecision, TicketEvent, TicketKey};
use servanda_authority::{Secret, attestation::AttestationKey};
use servanda_contract::Digest;
use servanda_effects::{
    JournalError, PortFuture, TicketStore,
    ticket_store::{AppliedTicket, TicketQuery},
};
use tokio::task::JoinSet;

use super::{decisions::terms, *};
use crate::{approvals::ApprovalParts, testing::approval_parts};

/// T1: an approval is for these bytes and no others.
#[tokio::test]
async fn t1_other_arguments_do_not_use_the_approval() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    for arguments in [r#"{"text":"hello "}"#, r#"{"text":"Hello"}"#, r#"{"text":"hell\u00f3"}"#] {
        let request = CallRequest { arguments: Bytes::from_static(arguments.as_bytes()), ..office.request() };
        let refusal = office.refusal_of(request).await;
        assert!(refusal.message.contains("waits for approval"), "{arguments}: {refusal:?}");
        assert_ne!(office.ticket_id(), id, "{arguments}");
    }
    assert_eq!(office.sent(), 0);
    // The same meaning in other bytes is the same call.
    let request = CallRequest { arguments: Bytes::from_static(br#" { "text" : "h\u0065llo" } "#), ..office.request() };
    content(office.harness.engine.call(request).await);
    assert_eq!((office.sent(), office.ticket(&id).await.state), (1, TicketState::Consumed));
}

/// T1: what reads like the approved arguments and is not, or could be read in two ways, is not sent; what is sent are the canonical bytes.
#[tokio::test]
async fn t1_numbers_names_and_doubled_members_do_not_use_the_approval() {
    let with_number = |contract: &mut ToolContract| {
        contract.affordance.input_schema["properties"]["n"] = json!({ "type": "number", "description": "Any." });
    };
    let approved = r#"{"text":"hello","n":9007199254740991}"#;
    let others = [
        r#"{"text":"hello","n":9007199254740992}"#,
        r#"{"text":"hello","n":9007199254740993}"#,
        r#"{"text":"hello","n":9007199254740991.5}"#,
        r#"{"text":"hello","n":-9007199254740991}"#,
        r#"{"text":"hello","n":"9007199254740991"}"#,
        r#"{"text":"hello","n":9007199254740991,"n":1}"#,
        r#"{"text":"hello","n":1,"n":9007199254740991}"#,
        r#"{"text":"hello","text":"hello","n":9007199254740991}"#,
        r#"{"text":"hello","n":9007199254740991,"N":9007199254740991}"#,
        r#"{"text":"hello\u0000","n":9007199254740991}"#,
        r#"{"text":"hello","n":9007199254740991}{}"#,
        r#"{"text":"hello"}"#,
    ];
    let office = Office::new(with_number);
    let of =
        |arguments: &str| CallRequest { arguments: Bytes::copy_from_slice(arguments.as_bytes()), ..office.request() };
    office.refusal_of(of(approved)).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    for arguments in others {
        office.refusal_of(of(arguments)).await;
        assert_ne!(office.harness.last_record().ticket_id.as_deref(), Some(id.as_str()), "{arguments}");
        assert_eq!((office.sent(), office.ticket(&id).await.state), (0, TicketState::Approved), "{arguments}");
    }
    // The same call in another order and form is sent as the bytes that were approved.
    content(office.harness.engine.call(of(r#"{ "n": 9007199254740991.0, "text": "hello" }"#)).await);
    let canonical = r#""arguments":{"n":9007199254740991,"text":"hello"}"#;
    assert!(office.server.heard().last().is_some_and(|heard| heard.contains(canonical)), "{:?}", office.server.heard());
    assert_eq!((office.sent(), office.ticket(&id).await.state), (1, TicketState::Consumed));
}

/// T2: one approval is one execution, however many calls take it up at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t2_a_hundred_calls_at_once_use_one_approval_once() {
    let office = Arc::new(Office::new(|_| {}));
    office.refused().await;
    office.approve(&person("olga"), &office.ticket_id()).await.unwrap();
    let mut calls = JoinSet::new();
    for number in 0..100 {
        let office = Arc::clone(&office);
        calls.spawn(async move {
            let keys = OperationKeys { idempotency_key: Some(format!("k-{number}")), ..OperationKeys::default() };
            let request = CallRequest { keys, ..office.request() };
            matches!(office.harness.engine.call(request).await, CallAnswer::Result(result) if !result.is_error)
        });
    }
    let done = calls.join_all().await.into_iter().filter(|done| *done).count();
    assert_eq!((done, office.sent()), (1, 1));
}

/// T3: the requester and the owner of the agent do not decide, under any name.
#[tokio::test]
async fn t3_nobody_approves_their_own_request() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    assert!(matches!(office.approve(&person("ada"), &id).await, Err(DecideError::Ineligible(_))));
    let stranger = Person { tenant: "globex".to_owned(), ..person("olga") };
    assert_eq!(office.approve(&stranger, &id).await, Err(DecideError::NoTicket(id.clone())));
    for name in ["vera", "mallory"] {
        assert!(matches!(office.approve(&person(name), &id).await, Err(DecideError::Ineligible(_))), "{name}");
    }
    office.refused().await;
    assert_eq!(office.sent(), 0);
}

type ContractChange = fn(&mut ToolContract);
pub(super) type TicketChange = fn(&mut Ticket);

/// T4: what changes between the approval and its use makes people decide again.
#[tokio::test]
async fn t4_a_removed_approver_a_raised_quorum_or_a_changed_contract_need_another_approval() {
    let without_olga = || {
        let roles = RoleAssignments::default().with(PersonRole::Approver, [member("acme/oscar")]);
        ApprovalSettings { roles, ..settings() }
    };
    let dual = |contract: &mut ToolContract| contract.approval = Some(terms(&json!({"pattern": "dual"})));
    let reworded = |contract: &mut ToolContract| contract.affordance.model_description.push_str(" Now.");
    let changes: [(&str, ApprovalSettings, ContractChange); 3] =
        [("approver", without_olga(), |_| {}), ("quorum", settings(), dual), ("contract", settings(), reworded)];
    for (name, changed, change) in changes {
        let office = Office::new(|_| {});
        office.refused().await;
        let id = office.ticket_id();
        office.approve(&person("olga"), &id).await.unwrap();
        office.change(changed, change).await;
        let refusal = office.refused().await;
        assert!(refusal.message.contains("waits for approval"), "{name}: {refusal:?}");
        assert_eq!(office.ticket(&id).await.state, TicketState::Superseded, "{name}");
        assert_eq!(office.ticket(&office.ticket_id()).await.continues, Some(id), "{name}");
        assert_eq!(office.sent(), 0, "{name}");
    }
}

/// T22: another caller neither joins the ticket nor uses the approval.
#[tokio::test]
async fn t22_another_caller_gets_a_ticket_of_their_own() {
    let office = Office::new(|_| {});
    office.refused().await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    for (tenant, name) in [("acme", "bob"), ("globex", "ada")] {
        let other = requester_of(tenant, name, office.clock.now());
        office.refusal_of(call(&other, "write", RequestTerms::default())).await;
        assert_ne!(office.ticket_id(), id, "{tenant}/{name}");
    }
    assert_eq!((office.sent(), office.ticket(&id).await.state), (0, TicketState::Approved));
}

/// A store that says that a ticket is approved although no person decided so.
#[derive(Debug)]
pub(super) struct TamperedTickets {
    inner: Arc<dyn TicketStore>,
    change: Mutex<Option<fn(&mut Ticket)>>,
}

impl TamperedTickets {
    /// Puts such a store beneath an office.
    pub(super) fn beneath(office: &mut Office) -> Arc<Self> {
        let parts = approval_parts();
        let tampered = Arc::new(Self { inner: parts.tickets.clone(), change: Mutex::new(None) });
        office.harness.approvals = ApprovalParts { tickets: tampered.clone(), keys: parts.keys };
        let snapshot = world(&office.server, settings(), vec![contract(|_| {}), draft("up", "echo", false)]);
        office.harness = office.harness.restarted(snapshot, office.clock.clone());
        tampered
    }

    pub(super) fn change_by(&self, change: TicketChange) {
        *self.change.lock().unwrap() = Some(change);
    }

    fn tampered(&self, mut ticket: Ticket) -> Ticket {
        if let Some(change) = *self.change.lock().unwrap() {
            change(&mut ticket);
        }
        ticket
    }
}

impl TicketStore for TamperedTickets {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        Box::pin(async move {
            let mut applied = self.inner.apply_ticket(target, event).await?;
            applied.ticket = applied.ticket.map(|ticket| Arc::new(self.tampered((*ticket).clone())));
            if applied.ticket.as_ref().is_some_and(|ticket| ticket.state == TicketState::Approved) {
                applied.reply = servanda_approval::TicketReply::Approved;
            }
            Ok(applied)
        })
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        Box::pin(async move { Ok(self.inner.find_ticket(target).await?.map(|ticket| self.tampered(ticket))) })
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

pub(super) fn mark_approved(ticket: &mut Ticket) {
    ticket.state = TicketState::Approved;
    ticket.decided_ms = Some(ticket.created_ms);
    ticket.use_by = Some(servanda_approval::Deadline::after(ticket.created_ms, ticket.created_ms, 600_000));
}

/// A decision that a key of somebody else signed.
fn foreign_decision(ticket: &Ticket) -> SignedDecision {
    let key = AttestationKey::from_seed(&Secret::new([9; 32])).unwrap();
    let decision = ApprovalDecision {
        ticket: ticket.id.clone(),
        payload_hash: ticket.subject.payload,
        verdict: ApprovalVerdict::Approve,
        tenant: "acme".to_owned(),
        approver: "olga".to_owned(),
        groups: BTreeSet::new(),
        presence: Presence::Session,
        credential: "session:forged".to_owned(),
        at_ms: ticket.created_ms,
        reason: None,
        break_glass: false,
    };
    decision.sign(None, &key).unwrap()
}

/// A row that was written into the store by hand is no approval: the decisions in it must be signed.
#[tokio::test]
async fn a_ticket_that_was_changed_in_the_store_approves_nothing() {
    let changes: [(&str, TicketChange); 4] = [
        ("marked approved", mark_approved),
        ("a decision that no known key signed", |ticket| {
            mark_approved(ticket);
            ticket.decisions = vec![foreign_decision(ticket)];
        }),
        ("another payload", |ticket| {
            mark_approved(ticket);
            ticket.subject.payload = Digest::from([1; 32]);
        }),
        ("another key", |ticket| {
            mark_approved(ticket);
            ticket.key = TicketKey::from(Digest::from([2; 32]));
        }),
    ];
    for (name, change) in changes {
        let mut office = Office::new(|_| {});
        let tampered = TamperedTickets::beneath(&mut office);
        office.refused().await;
        tampered.change_by(change);
        let refusal = office.refused().await;
        assert_eq!(refusal.error_code, TaxonomyClass::ConfirmationMissing, "{name}: {refusal:?}");
        assert_eq!(office.sent(), 0, "{name}");
    }
}
