//! A held call that a grant covers. People are not asked: what they allowed earlier is looked up, checked by gate 10, and drawn on when the
//! call is dispatched. A denial of this very call, or of too many calls of its run, comes first.

use std::ops::ControlFlow;

use servanda_approval::{ApprovalDemand, GrantFault, Ticket, TicketEvent, TicketReply};
use servanda_contract::{GateName, Refusal};
use servanda_effects::ticket_store::TicketTarget;
use servanda_gates::{HeldCall, JudgedCall, Permit, ShownGrant, Stopwatch as _};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation},
    state::CallPipeline,
};
use crate::{
    answers::approvals as words,
    approvals::{AttestationKeysError, is_maker_still_eligible},
};

impl CallPipeline<'_> {
    /// The permit of a held call that a grant covers. Every other call comes back, and people are asked.
    pub(super) async fn take_up_by_grant(
        &mut self,
        held: Box<HeldCall>,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Result<ControlFlow<Permit, Box<HeldCall>>, CallExit> {
        let started_us = self.stopwatch.elapsed_us();
        let found = self.covering_grant(&held, held.demand()).await.map_err(CallExit::refused)?;
        let Some(ticket) = found else { return Ok(ControlFlow::Continue(held)) };
        let request = self.ticket_request(&held, operation, context, false).await;
        let (target, event) = (TicketTarget::Key(request.key), TicketEvent::Cover(Box::new(request)));
        let applied = self.core.approvals.apply(target, event).await;
        let applied = applied.map_err(|error| CallExit::refused(words::store_away(held.call_id(), &error)))?;
        let refused = match (&applied.reply, applied.ticket) {
            (TicketReply::Covered, _) => return self.draw_on(held, &ticket, started_us).await,
            (TicketReply::RunStopped { .. }, _) => words::run_stopped(held.call_id(), &applied.reply),
            (TicketReply::Denied { .. }, Some(denied)) => {
                self.record.ticket_id = Some(denied.id.to_string());
                words::ended(&self.record.call_id, &self.record.tool, &denied, &applied.reply)
            }
            // People approved this very call: that approval is used, and nothing is drawn.
            _ => return Ok(ControlFlow::Continue(held)),
        };
        self.trail.note(GateName::Confirmation, false, started_us);
        Err(CallExit::refused(refused))
    }

    /// The ticket of the newest grant that covers a call which needs this approval.
    pub(super) async fn covering_grant(
        &self,
        judged: &JudgedCall,
        demand: &ApprovalDemand,
    ) -> Result<Option<Ticket>, Box<Refusal>> {
        let (approvals, key) = (&self.core.approvals, judged.grant_key());
        let found = approvals.grants_for(&key).await;
        let found = found.map_err(|error| words::store_away(judged.call_id(), &error))?;
        if found.is_empty() {
            return Ok(None);
        }
        let keys = approvals.keys().public_keys().await;
        let keys = keys.map_err(|error| words::no_keys(judged.call_id(), &error))?;
        let now_ms = self.core.clock.now().unix_ms();
        for ticket in found {
            let Some(standing) = &ticket.grant else { continue };
            // The store's clocks decide when it is drawn on; here it only saves asking the policy.
            if standing.end(now_ms, 0).is_some() {
                approvals.forget_ended(&key, &ticket.id).await;
                continue;
            }
            let is_its_own = standing.signed.grant.ticket == ticket.id;
            if !is_its_own || !is_maker_still_eligible(&ticket, self.snapshot.authorities.approvals()) {
                continue;
            }
            match judged.check_grant(demand, &ShownGrant { grant: standing, keys: &keys, now_ms }) {
                Ok(_) => return Ok(Some(ticket)),
                Err(GrantFault::Signature) => {
                    tracing::error!(ticket = %ticket.id, "a stored grant is not what a person made");
                }
                Err(fault) => tracing::debug!(ticket = %ticket.id, %fault, "a grant does not cover a call"),
            }
        }
        Ok(None)
    }

    async fn draw_on(
        &mut self,
        held: Box<HeldCall>,
        ticket: &Ticket,
        started_us: u64,
    ) -> Result<ControlFlow<Permit, Box<HeldCall>>, CallExit> {
        let Some(standing) = &ticket.grant else { return Ok(ControlFlow::Continue(held)) };
        let keys = self.core.approvals.keys().public_keys().await;
        let keys =
            keys.map_err(|error: AttestationKeysError| CallExit::refused(words::no_keys(held.call_id(), &error)))?;
        let now_ms = self.core.clock.now().unix_ms();
        match held.allow(&ShownGrant { grant: standing, keys: &keys, now_ms }) {
            Ok(permit) => {
                tracing::info!(ticket = %ticket.id, call_id = %permit.call_id(), "a grant covers a call");
                self.record.ticket_id = Some(ticket.id.to_string());
                self.record.by_grant = true;
                self.trail.note(GateName::Confirmation, true, started_us);
                self.begun = Instant::now();
                Ok(ControlFlow::Break(permit))
            }
            Err((held, _)) => Ok(ControlFlow::Continue(held)),
        }
    }
}
