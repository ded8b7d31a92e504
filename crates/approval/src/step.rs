//! Which state of a ticket follows which event. A pure function; every store runs it inside the transaction that reads the ticket and
//! writes the result.
//!
//! The law: only people approve. Time never does, and neither does a repetition, a restart or an escalation.

use crate::{
    ApprovalUse, ApprovalUseKind, ApprovalVerdict, Approver, Deadline, SignedDecision, SignedGrant, Ticket,
    TicketEvent, TicketReply, TicketRequest, TicketState, check_eligible, grant_step, ticket::TicketConsumption,
};

/// How long a denial holds for the same payload.
pub const DENIAL_HOLD_MS: u64 = 3_600_000;
/// Denials in a row that stop a run.
pub const DENIALS_IN_A_ROW_MAX: u32 = 3;
/// Denials that stop a run, in a row or not.
pub const DENIALS_IN_RUN_MAX: u32 = 20;

/// The circumstances of an event, as the store sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketContext {
    /// The store's clock.
    pub now_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
    /// What people decided about other calls of the run.
    pub run: RunDenials,
}

/// The denials of a run that still count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunDenials {
    /// The latest decided tickets of the run that were denied without an approval between them.
    pub in_a_row: u32,
    /// All.
    pub in_all: u32,
    /// When the latest was denied, by the store's clock.
    pub latest_ms: u64,
}

impl RunDenials {
    /// Counts the decisions of a run: when each was made and the state it led to, the latest first. Tickets that ended without a decision of
    /// a person do not count. Denials count as long as they hold.
    pub fn count(decided: impl IntoIterator<Item = (u64, TicketState)>, now_ms: u64) -> Self {
        let mut found = Self::default();
        let mut is_in_a_row = true;
        for (decided_ms, state) in decided {
            match state {
                TicketState::Denied => {
                    found.latest_ms = found.latest_ms.max(decided_ms);
                    found.in_all += 1;
                    found.in_a_row += u32::from(is_in_a_row);
                }
                TicketState::Approved | TicketState::Consumed | TicketState::Lapsed => is_in_a_row = false,
                TicketState::Pending | TicketState::AutoDenied | TicketState::Superseded => {}
            }
        }
        let holds = now_ms < found.latest_ms.saturating_add(DENIAL_HOLD_MS);
        if holds { found } else { Self::default() }
    }
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct TicketTransition {
    /// The tickets that change: the one before, and one that is opened.
    pub changes: Vec<Ticket>,
    /// The reply.
    pub reply: TicketReply,
}

/// Computes the result of an event. `ticket` is the ticket that the event names; for a request, the latest with its key.
pub fn step(ticket: Option<&Ticket>, event: &TicketEvent, around: &TicketContext) -> TicketTransition {
    let due = ticket.and_then(|ticket| ended_by_time(ticket, around));
    let present = due.as_ref().or(ticket);
    let mut transition = match (event, present) {
        (TicketEvent::Request(request), present) => requested(request, present, around),
        (TicketEvent::Cover(request), present) => covered(request, present, around),
        (_, None) => reply(TicketReply::NotFound),
        (TicketEvent::Decide { decision, approver, grant }, Some(ticket)) => {
            decided(ticket, decision, (approver, grant.as_deref()), around)
        }
        (TicketEvent::Grant { grant, approver }, Some(ticket)) => {
            result_of(grant_step::granted(ticket, grant, approver, around.now_ms, around.ledger_ms))
        }
        (TicketEvent::Revoke { by, reason }, Some(ticket)) => {
            result_of(grant_step::revoked(ticket, by, reason, around.now_ms))
        }
        (TicketEvent::Consume { usage, effect_id }, Some(ticket)) => match usage.kind {
            ApprovalUseKind::Approval => consumed(ticket, usage, effect_id, around),
            ApprovalUseKind::Grant { call, cost_micros } => {
                let now = (around.now_ms, around.ledger_ms);
                result_of(grant_step::drawn(ticket, usage, (call, cost_micros), effect_id, now))
            }
        },
        (TicketEvent::Supersede { reason }, Some(ticket)) if ticket.state.is_open() => {
            changed(superseded(ticket, reason, around), TicketReply::Done)
        }
        (TicketEvent::Notified { notice }, Some(ticket)) if !notice.was_sent(ticket) => {
            changed(notice.sent(ticket), TicketReply::Done)
        }
        (TicketEvent::Supersede { .. } | TicketEvent::Tick | TicketEvent::Notified { .. }, Some(_)) => {
            reply(TicketReply::Unchanged)
        }
    };
    // What time did to the ticket is written too, unless the event changed the ticket further.
    if let Some(due) = due
        && !transition.changes.iter().any(|changed| changed.id == due.id)
    {
        if matches!(event, TicketEvent::Tick) {
            transition.reply = TicketReply::Done;
        }
        transition.changes.insert(0, due);
    }
    transition
}

fn reply(reply: TicketReply) -> TicketTransition {
    TicketTransition { changes: Vec::new(), reply }
}

fn changed(ticket: Ticket, reply: TicketReply) -> TicketTransition {
    TicketTransition { changes: vec![ticket], reply }
}

fn result_of((ticket, reply): (Option<Ticket>, TicketReply)) -> TicketTransition {
    TicketTransition { changes: ticket.into_iter().collect(), reply }
}

/// The ticket after its time, if its time is over.
fn ended_by_time(ticket: &Ticket, around: &TicketContext) -> Option<Ticket> {
    let has_passed = |deadline: &Deadline| deadline.has_passed(around.now_ms, around.ledger_ms);
    let state = match (ticket.state, &ticket.use_by) {
        (TicketState::Pending, _) if has_passed(&ticket.decide_by) => TicketState::AutoDenied,
        (TicketState::Approved, Some(use_by)) if has_passed(use_by) => TicketState::Lapsed,
        // Without a deadline an approval would hold for ever.
        (TicketState::Approved, None) => TicketState::Lapsed,
        _ => return None,
    };
    let decided_ms = ticket.decided_ms.or(Some(around.now_ms));
    Some(Ticket { state, decided_ms, changed_ms: around.now_ms, ..ticket.clone() })
}

fn superseded(ticket: &Ticket, reason: &str, around: &TicketContext) -> Ticket {
    let reason = Some(reason.to_owned());
    Ticket { state: TicketState::Superseded, reason, changed_ms: around.now_ms, ..ticket.clone() }
}

/// A call asks for an approval.
fn requested(request: &TicketRequest, latest: Option<&Ticket>, around: &TicketContext) -> TicketTransition {
    let Some(latest) = latest else { return opened(request, None, around) };
    let is_same = latest.subject.payload == request.subject.payload;
    match latest.state {
        TicketState::Pending | TicketState::Approved if !is_same => {
            opened_instead(request, latest, "the contract changed", around)
        }
        TicketState::Pending if latest.demand != request.demand && !latest.demand.still_satisfies(&request.demand) => {
            opened_instead(request, latest, "more is needed for an approval than when it was asked for", around)
        }
        TicketState::Approved if !latest.demand.still_satisfies(&request.demand) => {
            opened_instead(request, latest, "more is needed for an approval than when it was given", around)
        }
        TicketState::Approved if has_ended_plan(latest, around) => {
            opened_instead(request, latest, "its grant has ended", around)
        }
        TicketState::Pending => reply(TicketReply::Pending),
        TicketState::Approved => reply(TicketReply::Approved),
        TicketState::Denied => {
            let until_ms = latest.decided_ms.unwrap_or(latest.changed_ms).saturating_add(DENIAL_HOLD_MS);
            if around.now_ms < until_ms {
                return reply(TicketReply::Denied { until_ms });
            }
            opened(request, Some(latest), around)
        }
        TicketState::AutoDenied if !latest.told => {
            changed(Ticket { told: true, ..latest.clone() }, TicketReply::NobodyDecided)
        }
        TicketState::Lapsed if !latest.told => changed(Ticket { told: true, ..latest.clone() }, TicketReply::Lapsed),
        TicketState::AutoDenied | TicketState::Lapsed | TicketState::Superseded => {
            opened(request, Some(latest), around)
        }
        // The approved call was made; this is another one.
        TicketState::Consumed => opened(request, None, around),
    }
}

/// Whether nothing is left of an approved plan.
fn has_ended_plan(ticket: &Ticket, around: &TicketContext) -> bool {
    ticket.is_plan()
        && ticket.grant.as_ref().is_none_or(|standing| standing.end(around.now_ms, around.ledger_ms).is_some())
}

/// A call that a grant covers. What people decided about this very call, or about its run, comes first.
fn covered(request: &TicketRequest, latest: Option<&Ticket>, around: &TicketContext) -> TicketTransition {
    if let Some(latest) = latest {
        let is_same = latest.subject.payload == request.subject.payload;
        match latest.state {
            TicketState::Denied => {
                let until_ms = latest.decided_ms.unwrap_or(latest.changed_ms).saturating_add(DENIAL_HOLD_MS);
                if around.now_ms < until_ms {
                    return reply(TicketReply::Denied { until_ms });
                }
            }
            TicketState::Approved if is_same && latest.demand.still_satisfies(&request.demand) => {
                return reply(TicketReply::Approved);
            }
            _ => {}
        }
    }
    if let Some(until_ms) = run_stopped_until_ms(around) {
        return reply(TicketReply::RunStopped { until_ms });
    }
    match latest.filter(|latest| latest.state == TicketState::Pending) {
        // No person has to decide about it any more.
        Some(waiting) => changed(superseded(waiting, "a grant allows it", around), TicketReply::Covered),
        None => reply(TicketReply::Covered),
    }
}

/// Until when nothing of the run is asked about, because people denied so much of it.
fn run_stopped_until_ms(around: &TicketContext) -> Option<u64> {
    let RunDenials { in_a_row, in_all, latest_ms } = around.run;
    let until_ms = latest_ms.saturating_add(DENIAL_HOLD_MS);
    let is_stopped = in_a_row >= DENIALS_IN_A_ROW_MAX || in_all >= DENIALS_IN_RUN_MAX;
    (is_stopped && around.now_ms < until_ms).then_some(until_ms)
}

fn opened(request: &TicketRequest, before: Option<&Ticket>, around: &TicketContext) -> TicketTransition {
    if let Some(until_ms) = run_stopped_until_ms(around) {
        return reply(TicketReply::RunStopped { until_ms });
    }
    let ticket = Ticket {
        id: request.id.clone(),
        key: request.key,
        subject: request.subject.clone(),
        demand: request.demand.clone(),
        state: TicketState::Pending,
        decisions: Vec::new(),
        created_ms: around.now_ms,
        changed_ms: around.now_ms,
        decide_by: Deadline::after(around.now_ms, around.ledger_ms, request.demand.decide_within_ms),
        use_by: None,
        decided_ms: None,
        notices_sent: 0,
        outcome_sent: false,
        told: false,
        continues: before.map(|before| before.id.clone()),
        reason: None,
        consumed: None,
        grant: None,
    };
    changed(ticket, TicketReply::Pending)
}

fn opened_instead(request: &TicketRequest, before: &Ticket, reason: &str, around: &TicketContext) -> TicketTransition {
    let mut transition = opened(request, Some(before), around);
    transition.changes.insert(0, superseded(before, reason, around));
    transition
}

/// A person decides. The approval of a plan comes with its grant; one without the other is nothing.
fn decided(
    ticket: &Ticket,
    signed: &SignedDecision,
    (approver, grant): (&Approver, Option<&SignedGrant>),
    around: &TicketContext,
) -> TicketTransition {
    let decision = &signed.decision;
    let is_theirs = decision.tenant == approver.tenant && decision.approver == approver.principal;
    if ticket.subject.tenant != approver.tenant || decision.ticket != ticket.id || !is_theirs {
        return reply(TicketReply::NotFound);
    }
    if ticket.state != TicketState::Pending {
        return reply(TicketReply::NotNow);
    }
    if decision.payload_hash != ticket.subject.payload {
        return reply(TicketReply::OtherPayload);
    }
    let takes_emergency_role = match check_eligible(ticket, approver, around.now_ms) {
        Ok(takes_emergency_role) => takes_emergency_role,
        Err(ineligible) => return reply(TicketReply::NotEligible(ineligible)),
    };
    if takes_emergency_role != decision.break_glass {
        // The person has to say that they use the emergency role.
        return reply(TicketReply::NotEligible(crate::Ineligible::OtherGroup));
    }
    let is_approval_of_plan = decision.verdict == ApprovalVerdict::Approve && ticket.is_plan();
    if is_approval_of_plan && takes_emergency_role {
        return reply(TicketReply::NotEligible(crate::Ineligible::OtherGroup));
    }
    if grant.is_some() && !is_approval_of_plan {
        return reply(TicketReply::NotNow);
    }
    let mut ticket = Ticket { changed_ms: around.now_ms, ..ticket.clone() };
    ticket.decisions.push(signed.clone());
    if decision.verdict == ApprovalVerdict::Deny {
        (ticket.state, ticket.decided_ms) = (TicketState::Denied, Some(around.now_ms));
        let until_ms = around.now_ms.saturating_add(DENIAL_HOLD_MS);
        return changed(ticket, TicketReply::Denied { until_ms });
    }
    let missing = needed(&ticket).saturating_sub(ticket.approvals());
    if missing > 0 {
        let missing = u8::try_from(missing).unwrap_or(u8::MAX);
        return changed(ticket, TicketReply::Recorded { missing });
    }
    (ticket.state, ticket.decided_ms) = (TicketState::Approved, Some(around.now_ms));
    if is_approval_of_plan {
        return match grant_step::attached(ticket, grant, approver, around.now_ms, around.ledger_ms) {
            Ok(ticket) => changed(ticket, TicketReply::Approved),
            Err(why) => reply(why),
        };
    }
    ticket.use_by = Some(Deadline::after(around.now_ms, around.ledger_ms, ticket.demand.use_within_ms));
    changed(ticket, TicketReply::Approved)
}

/// How many people have to approve. With the emergency role it is never one person alone.
pub(crate) fn needed(ticket: &Ticket) -> usize {
    let is_emergency = ticket.decisions.iter().any(|signed| signed.decision.break_glass);
    let least = if is_emergency { 2 } else { 1 };
    usize::from(ticket.demand.quorum).max(least)
}

/// The call is dispatched.
fn consumed(ticket: &Ticket, usage: &ApprovalUse, effect_id: &str, around: &TicketContext) -> TicketTransition {
    if ticket.state == TicketState::Consumed && ticket.is_used_by(usage, effect_id) {
        return reply(TicketReply::Consumed);
    }
    if ticket.state == TicketState::Lapsed {
        return reply(TicketReply::Lapsed);
    }
    if ticket.state != TicketState::Approved || ticket.id != usage.ticket {
        return reply(TicketReply::NotNow);
    }
    if ticket.subject.payload != usage.payload {
        return reply(TicketReply::OtherPayload);
    }
    let (call_id, warrant) = (usage.call_id.clone(), usage.warrant);
    let consumed = Some(TicketConsumption { call_id, effect_id: effect_id.to_owned(), warrant, at_ms: around.now_ms });
    let ticket = Ticket { state: TicketState::Consumed, consumed, changed_ms: around.now_ms, ..ticket.clone() };
    changed(ticket, TicketReply::Consumed)
}
