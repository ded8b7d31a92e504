//! What happens to the grant of a ticket: a person makes it, calls draw on it, a person takes it back. Pure, and a part of `step`: every store
//! runs it inside its own transaction, and a draw inside the one that dispatches the call.

use crate::{
    ApprovalUse, Approver, Deadline, GrantDraw, GrantEnd, GrantRevocation, GrantedCall, SignedGrant, StandingGrant,
    Ticket, TicketReply, grant_terms::check_maker_of, grant_terms::grant_obstacle, granted_call::needs_people,
};

const DAY_MS: u64 = 24 * 3_600_000;
/// The most times that a grant covers one of its calls.
pub const GRANT_USES_MAX: u32 = 100;
/// The most calls of a grant.
pub const PLAN_CALLS_MAX: usize = 20;
/// The longest time that a grant holds: thirty days.
pub const GRANT_LIFE_MS_MAX: u64 = 30 * DAY_MS;

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
    let is_own = |call: &GrantedCall| call.ticket.as_ref() == Some(&ticket.id);
    // The first call is the ticket's. The others have tickets of their own, where the maker of the statement saw that people approved them.
    let has_own = grant.calls.first().is_some_and(|call| is_own(call) && call.payload_hash == grant.payload_hash);
    let are_others = grant.calls.iter().skip(1).all(|call| call.ticket.is_some() && !is_own(call));
    if grant_obstacle(ticket).is_some() || !has_own || !are_others || !is_within_limits(signed, life_ms) {
        return (None, TicketReply::NotNow);
    }
    let until = Deadline::after(now_ms, ledger_ms, life_ms);
    let standing = StandingGrant { signed: signed.clone(), until, draws: Vec::new(), revoked: None };
    let ticket = Ticket { grant: Some(Box::new(standing)), changed_ms: now_ms, ..ticket.clone() };
    (Some(ticket), TicketReply::Done)
}

/// A person approves a plan, and its grant holds with the approval: the ticket with the grant. The error is why neither does.
pub(crate) fn attached(
    ticket: Ticket,
    signed: Option<&SignedGrant>,
    approver: &Approver,
    now_ms: u64,
    ledger_ms: u64,
) -> Result<Ticket, TicketReply> {
    let (Some(signed), Some(plan)) = (signed, ticket.plan()) else { return Err(TicketReply::NotNow) };
    let grant = &signed.grant;
    // Nothing but what the ticket says, for the person who decides.
    let said = ticket.make_plan_grant(approver, grant.credential.clone(), (grant.at_ms, grant.until_ms));
    if said.as_ref() != Some(grant) {
        return Err(TicketReply::OtherPayload);
    }
    check_maker_of(&ticket, grant, approver, now_ms).map_err(TicketReply::NotEligible)?;
    let life_ms = grant.until_ms.saturating_sub(now_ms);
    let is_in_days = grant.until_ms.saturating_sub(grant.at_ms) <= u64::from(plan.days).saturating_mul(DAY_MS);
    if !is_in_days || !is_within_limits(signed, life_ms) {
        return Err(TicketReply::NotNow);
    }
    let until = Deadline::after(now_ms, ledger_ms, life_ms);
    let standing = StandingGrant { signed: signed.clone(), until, draws: Vec::new(), revoked: None };
    // As long as the grant holds, the same plan is answered with it.
    Ok(Ticket { use_by: Some(until), grant: Some(Box::new(standing)), ..ticket })
}

fn is_within_limits(signed: &SignedGrant, life_ms: u64) -> bool {
    let calls = &signed.grant.calls;
    (1..=PLAN_CALLS_MAX).contains(&calls.len())
        && (1..=GRANT_LIFE_MS_MAX).contains(&life_ms)
        && calls.iter().all(|call| (1..=GRANT_USES_MAX).contains(&call.uses_max))
        && calls.iter().all(|call| needs_people(&call.demand).is_none())
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

/// A call is dispatched and draws on one call of the grant. The same call of the same effect draws once, however often it is repeated.
pub(crate) fn drawn(
    ticket: &Ticket,
    usage: &ApprovalUse,
    (call, cost_micros): (usize, u64),
    effect_id: &str,
    (now_ms, ledger_ms): (u64, u64),
) -> (Option<Ticket>, TicketReply) {
    let is_its_own = |standing: &StandingGrant| ticket.id == usage.ticket && standing.signed.grant.ticket == ticket.id;
    let Some(standing) = ticket.grant.as_ref().filter(|standing| is_its_own(standing)) else {
        return (None, TicketReply::NotNow);
    };
    if standing.signed.digest() != usage.warrant {
        return (None, TicketReply::OtherPayload);
    }
    let end = standing.end(now_ms, ledger_ms);
    if let Some(end @ (GrantEnd::Revoked | GrantEnd::Expired)) = end {
        return (None, TicketReply::GrantEnded(end));
    }
    let is_known = |draw: &GrantDraw| draw.effect_id == effect_id && draw.payload == usage.payload;
    if standing.draws.iter().any(is_known) {
        return (None, TicketReply::Consumed);
    }
    if let Some(end) = standing.lack(call, cost_micros).or(end) {
        return (None, TicketReply::GrantEnded(end));
    }
    let mut standing = standing.clone();
    let (call_id, effect_id, payload) = (usage.call_id.clone(), effect_id.to_owned(), usage.payload);
    standing.draws.push(GrantDraw { call_id, effect_id, payload, call, cost_micros, at_ms: now_ms });
    (Some(Ticket { grant: Some(standing), changed_ms: now_ms, ..ticket.clone() }), TicketReply::Consumed)
}
