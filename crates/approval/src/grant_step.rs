//! What happens to the grant of a ticket: a person makes it, calls draw on it, a person takes it back. Pure, and a part of `step`: every store
//! runs it inside its own transaction, and a draw inside the one that dispatches the call.

use crate::{
    ApprovalUse, Approver, Deadline, GrantDraw, GrantEnd, GrantRevocation, SignedGrant, StandingGrant, Ticket,
    TicketReply, grant::needs_people, grant_terms::check_maker_of, grant_terms::grant_obstacle,
};

/// The most calls that a grant covers.
pub const GRANT_USES_MAX: u32 = 100;
/// The most calls of a plan.
pub const PLAN_CALLS_MAX: usize = 20;
/// The longest time that a grant holds: thirty days.
pub const GRANT_LIFE_MS_MAX: u64 = 30 * 24 * 3_600_000;

/// A person makes a grant.
pub(crate) fn granted(
    ticket: &Ticket,
    signed: &SignedGrant,
    approver: &Approver,
    now_ms: u64,
    ledger_ms: u64,
) -> (Option<Ticket>, TicketReply) {
    let grant = &signed.grant;
    let is_theirs = grant.tenant == approver.tenant && grant.approver == approver.principal;
    if ticket.subject.tenant != approver.tenant || grant.ticket != ticket.id || !is_theirs {
        return (None, TicketReply::NotFound);
    }
    if grant.payload_hash != ticket.subject.payload {
        return (None, TicketReply::OtherPayload);
    }
    if let Err(ineligible) = check_maker_of(ticket, grant, approver, now_ms) {
        return (None, TicketReply::NotEligible(ineligible));
    }
    let life_ms = grant.until_ms.saturating_sub(now_ms);
    let is_bounded = (1..=GRANT_USES_MAX).contains(&grant.uses_max) && (1..=GRANT_LIFE_MS_MAX).contains(&life_ms);
    // The further calls have tickets of their own. The maker of the statement has looked up that people approved them.
    let is_plan_allowed = grant.further.len() < PLAN_CALLS_MAX
        && grant.further.iter().all(|call| call.ticket != ticket.id && needs_people(&call.demand).is_none());
    if grant_obstacle(ticket).is_some() || !is_bounded || !is_plan_allowed {
        return (None, TicketReply::NotNow);
    }
    let until = Deadline::after(now_ms, ledger_ms, life_ms);
    let standing = StandingGrant { signed: signed.clone(), until, draws: Vec::new(), revoked: None };
    let ticket = Ticket { grant: Some(Box::new(standing)), changed_ms: now_ms, ..ticket.clone() };
    (Some(ticket), TicketReply::Done)
}

/// A person takes the grant back. What was drawn before stays.
pub(crate) fn revoked(ticket: &Ticket, by: &str, reason: &str, now_ms: u64) -> (Option<Ticket>, TicketReply) {
    let Some(standing) = &ticket.grant else { return (None, TicketReply::NotFound) };
    if standing.revoked.is_some() {
        return (None, TicketReply::GrantEnded(GrantEnd::Revoked));
    }
    let revoked = GrantRevocation { by: by.to_owned(), reason: reason.to_owned(), at_ms: now_ms };
    let standing = StandingGrant { revoked: Some(revoked), ..(**standing).clone() };
    (Some(Ticket { grant: Some(Box::new(standing)), changed_ms: now_ms, ..ticket.clone() }), TicketReply::Done)
}

/// A call is dispatched and draws on the grant. The same call of the same effect draws once, however often it is repeated.
pub(crate) fn drawn(
    ticket: &Ticket,
    usage: &ApprovalUse,
    effect_id: &str,
    now_ms: u64,
    ledger_ms: u64,
) -> (Option<Ticket>, TicketReply) {
    let is_its_own = |standing: &StandingGrant| ticket.id == usage.ticket && standing.signed.grant.ticket == ticket.id;
    let Some(standing) = ticket.grant.as_ref().filter(|standing| is_its_own(standing)) else {
        return (None, TicketReply::NotNow);
    };
    if standing.signed.digest() != usage.warrant {
        return (None, TicketReply::OtherPayload);
    }
    if let Some(end) = standing.end(now_ms, ledger_ms).filter(|end| *end != GrantEnd::UsedUp) {
        return (None, TicketReply::GrantEnded(end));
    }
    let is_known = |draw: &GrantDraw| draw.effect_id == effect_id && draw.payload == usage.payload;
    if standing.draws.iter().any(is_known) {
        return (None, TicketReply::Consumed);
    }
    if standing.end(now_ms, ledger_ms).is_some() {
        return (None, TicketReply::GrantEnded(GrantEnd::UsedUp));
    }
    let mut standing = standing.clone();
    let (call_id, effect_id) = (usage.call_id.clone(), effect_id.to_owned());
    standing.draws.push(GrantDraw { call_id, effect_id, payload: usage.payload, at_ms: now_ms });
    (Some(Ticket { grant: Some(standing), changed_ms: now_ms, ..ticket.clone() }), TicketReply::Consumed)
}
