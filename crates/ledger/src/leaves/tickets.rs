//! The leaves of tickets: their states, what people decided, and what becomes of their grants.

use std::sync::Arc;

use servanda_approval::{ApprovalVerdict, SignedDecision, StandingGrant, Ticket, TicketState};
use servanda_audit::leaf::{
    ApprovalLeaf, AuditEvent, ChangeLeaf, ChangedThing, GRANT_DRAWN, LeafSalts, LeafTicketState, SaltedThing,
    TicketLeaf,
};
use servanda_contract::json;

use super::text;
use crate::LedgerError;

/// A ticket before and after an event.
#[derive(Debug, Clone)]
pub(crate) struct TicketChange {
    /// None if it was opened.
    pub(crate) before: Option<Arc<Ticket>>,
    pub(crate) after: Arc<Ticket>,
}

/// What happened, in its order.
pub(super) fn events(transition: &TicketChange, salts: &LeafSalts) -> Result<Vec<AuditEvent>, LedgerError> {
    let (before, after) = (transition.before.as_deref(), &*transition.after);
    let mut events = Vec::new();
    if before.is_none() {
        events.push(AuditEvent::Ticket(opened(after, salts)));
    }
    let known = before.map_or(0, |before| before.decisions.len());
    for signed in after.decisions.iter().skip(known) {
        events.push(AuditEvent::Approval(approval(after, signed, salts)?));
    }
    if after.state != before.map_or(TicketState::Pending, |before| before.state) {
        events.push(AuditEvent::Ticket(moved(after)));
    }
    let granted_before = before.and_then(|before| before.grant.as_deref());
    if let Some(standing) = &after.grant {
        events.extend(of_grant(after, granted_before, standing).map(AuditEvent::Change));
    }
    Ok(events)
}

fn opened(ticket: &Ticket, salts: &LeafSalts) -> TicketLeaf {
    TicketLeaf {
        call: Some(ticket.subject.call_id.to_string()),
        payload: Some(salts.commit(SaltedThing::Ticket, ticket.id.as_str(), ticket.subject.payload.as_bytes())),
        quorum: Some(ticket.demand.quorum),
        ticket: ticket.id.to_string(),
        to: LeafTicketState::Pending,
        warrant: None,
    }
}

fn moved(ticket: &Ticket) -> TicketLeaf {
    let consumed = ticket.consumed.as_ref();
    TicketLeaf {
        call: consumed.map(|consumed| consumed.call_id.to_string()),
        payload: None,
        quorum: None,
        ticket: ticket.id.to_string(),
        to: match ticket.state {
            TicketState::Pending => LeafTicketState::Pending,
            TicketState::Approved => LeafTicketState::Approved,
            TicketState::Denied => LeafTicketState::Denied,
            TicketState::AutoDenied => LeafTicketState::AutoDenied,
            TicketState::Superseded => LeafTicketState::Superseded,
            TicketState::Consumed => LeafTicketState::Consumed,
            TicketState::Lapsed => LeafTicketState::Lapsed,
        },
        warrant: consumed.map(|consumed| consumed.warrant.to_string()),
    }
}

fn approval(ticket: &Ticket, signed: &SignedDecision, salts: &LeafSalts) -> Result<ApprovalLeaf, LedgerError> {
    let unwritable =
        |error: &dyn std::fmt::Display| LedgerError::Leaf { about: ticket.id.to_string(), reason: error.to_string() };
    let document = serde_json::to_value(signed).map_err(|error| unwritable(&error))?;
    let statement = json::canonicalize(&document).map_err(|error| unwritable(&error))?;
    let commit = |content: &[u8]| salts.commit(SaltedThing::Ticket, ticket.id.as_str(), content);
    Ok(ApprovalLeaf {
        approves: signed.decision.verdict == ApprovalVerdict::Approve,
        by: text(&signed.decision.approver),
        payload: commit(signed.decision.payload_hash.as_bytes()),
        statement: commit(statement.bytes()),
        ticket: ticket.id.to_string(),
    })
}

fn of_grant<'a>(
    ticket: &'a Ticket,
    before: Option<&'a StandingGrant>,
    standing: &'a StandingGrant,
) -> impl Iterator<Item = ChangeLeaf> + 'a {
    let change = |word: &str, by: &str, call: Option<String>| ChangeLeaf {
        by: text(by),
        call,
        change: word.to_owned(),
        digest: Some(standing.signed.digest().to_string()),
        id: ticket.id.to_string(),
        thing: ChangedThing::Grant,
    };
    let made = before.is_none().then(|| change("made", &standing.signed.grant.approver, None));
    let drawn = standing.draws.iter().skip(before.map_or(0, |before| before.draws.len()));
    let drawn = drawn.map(move |draw| change(GRANT_DRAWN, &ticket.subject.principal, Some(draw.call_id.to_string())));
    let revoked = standing.revoked.as_ref().filter(|_| before.is_none_or(|before| before.revoked.is_none()));
    let revoked = revoked.map(|revoked| ChangeLeaf {
        by: text(&revoked.by),
        call: None,
        change: "revoked".to_owned(),
        digest: Some(standing.signed.digest().to_string()),
        id: ticket.id.to_string(),
        thing: ChangedThing::Grant,
    });
    made.into_iter().chain(drawn).chain(revoked)
}
