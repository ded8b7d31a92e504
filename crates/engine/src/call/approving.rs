//! A call that needs a person's approval: it opens a ticket or joins the open one, waits for a while if its caller can wait, and takes the
//! approval up. Nothing is sent, claimed or reserved before that. A client that takes tasks gets one instead (`holding`), and one that can
//! show a page is sent to it first (`approval_page`).
//!
//! The ticket belongs to the payload, not to this call: a repetition of the same bytes by the same caller takes the approval up. Gate 10
//! decides whether a call needs an approval, and makes a permit only of a warrant that approves this very call.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use serde_json::{json, value::RawValue};
use servanda_approval::{
    Ticket, TicketEvent, TicketId, TicketReply, TicketRequest, TicketState, TicketSubject, Warrant,
};
use servanda_contract::{GateName, Refusal};
use servanda_effects::{
    effect::{self, EffectTarget},
    ticket_store::TicketTarget,
};
use servanda_gates::{ApprovalTexts, Confirmation, HeldCall, Permit, ShownWarrant, Stopwatch as _};
use tokio::time::Instant;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation},
    preview::{counts_now, denial_held_until_ms},
    state::CallPipeline,
    ticket_subject::ticket_subject,
};
use crate::{
    answers::approvals as words, approval_notices, approvals::is_still_eligible, client::ClientMessage,
    world::PLAN_TOOL,
};

/// How often a waiting call looks at its ticket, which another gateway may have changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often a waiting caller is told that the call waits.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// How long before the end of its own timeout a waiting caller is answered.
const RESERVE_MS: u64 = 500;

impl CallPipeline<'_> {
    /// The permit of a call: at once if it needs no approval, else when people have approved this very call.
    pub(super) async fn approve(
        &mut self,
        confirmation: Confirmation,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Result<Permit, CallExit> {
        match confirmation.permitted() {
            Ok(permit) => Ok(permit),
            // Boxed, because few calls need an approval.
            Err(held) => Box::pin(self.take_up(held, operation, context)).await,
        }
    }

    async fn take_up(
        &mut self,
        held: Box<HeldCall>,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Result<Permit, CallExit> {
        self.answer_if_done(&held, operation).await?;
        let mut held = match self.take_up_by_grant(held, operation, context).await? {
            ControlFlow::Break(permit) => return Ok(permit),
            ControlFlow::Continue(held) => held,
        };
        let started_us = self.stopwatch.elapsed_us();
        let until = self.waits_until(context);
        let mut request = None;
        loop {
            let known = match &context.takes_up {
                Some(ticket) => self.look_at_ticket_of_task(&held, ticket).await?,
                None => None,
            };
            let (reply, ticket) = match known {
                Some(known) => known,
                None => self.ask_for_approval(&held, operation, context, &mut request).await?,
            };
            self.record.ticket_id = Some(ticket.id.to_string());
            let refused = match reply {
                TicketReply::Approved => match self.with_warrant(held, &ticket).await {
                    Ok(permit) => {
                        self.trail.note(GateName::Confirmation, true, started_us);
                        // The time of the contract begins again: people took their time, not the server.
                        self.begun = Instant::now();
                        return Ok(permit);
                    }
                    Err((back, refusal)) => {
                        held = back;
                        match refusal {
                            // What was approved is no longer enough: the loop opens another ticket.
                            None => {
                                request = None;
                                continue;
                            }
                            Some(refusal) => refusal,
                        }
                    }
                },
                TicketReply::Pending if context.takes_up.is_none() => {
                    if let Some(exit) = self.hold_as_task(&held, &ticket, operation, context).await {
                        return Err(exit);
                    }
                    if let Some(exit) = self.send_to_page(&ticket, operation, context).await {
                        return Err(exit);
                    }
                    if self.wait_for_decision(&ticket, until, context).await {
                        continue;
                    }
                    self.pending(&ticket)
                }
                TicketReply::Pending => self.pending(&ticket),
                reply => words::ended(&self.record.call_id, &self.record.tool, &ticket, &reply),
            };
            self.trail.note(GateName::Confirmation, false, started_us);
            return Err(CallExit::refused(refused));
        }
    }

    /// Answers a call whose operation exists already: an approval is asked only for what is not done.
    async fn answer_if_done(&self, held: &HeldCall, operation: &CallOperation) -> Result<(), CallExit> {
        if !operation.key.can_come_again() {
            return Ok(());
        }
        let key = held.effect_key(operation.key.clone());
        let found = self.core.effects.find(EffectTarget::Key(key)).await;
        let found = found.map_err(|error| CallExit::refused(words::store_away(held.call_id(), &error)))?;
        let Some(found) = found else { return Ok(()) };
        match effect::standing_reply(&found, held.payload_digest()) {
            Some(reply) => Err(CallExit::ExistingEffect(reply, Some(Arc::new(found)))),
            None => Ok(()),
        }
    }

    /// Opens a ticket or joins the open one. `request` is made once for all attempts of this call.
    async fn ask_for_approval(
        &self,
        held: &HeldCall,
        operation: &CallOperation,
        context: &CallContext,
        request: &mut Option<TicketRequest>,
    ) -> Result<(TicketReply, Arc<Ticket>), CallExit> {
        let approvals = &self.core.approvals;
        let away = |error| CallExit::refused(words::store_away(held.call_id(), &error));
        if request.is_none() {
            let target = TicketTarget::Key(held.ticket_key());
            let latest = approvals.latest(&target).await.map_err(away)?;
            // What others say about the call is asked only for a ticket that is opened.
            let now_ms = self.core.clock.now().unix_ms();
            let is_new = latest.is_none_or(|latest| !answers(&latest, held, now_ms));
            *request = Some(self.ticket_request(held, operation, context, is_new).await);
        }
        let Some(request) = request.clone() else { return Err(CallExit::refused(words::unreachable(held.call_id()))) };
        let asked = TicketRequest { id: TicketId::new(), ..request };
        let opened = asked.id.clone();
        let applied = approvals.request(asked).await.map_err(away)?;
        let Some(ticket) = applied.ticket else {
            // Only a stopped run has a reply without a ticket.
            return Err(CallExit::refused(words::run_stopped(held.call_id(), &applied.reply)));
        };
        if ticket.id == opened {
            tracing::info!(ticket = %ticket.id, call_id = %held.call_id(), tool = %ticket.subject.contract, "a call waits for approval");
            approval_notices::tell_opened(self.core, &ticket).await;
        }
        Ok((applied.reply, ticket))
    }

    /// What is asked about a call. `is_new`: a ticket is opened for it, so the state before it is read.
    pub(super) async fn ticket_request(
        &self,
        held: &HeldCall,
        operation: &CallOperation,
        context: &CallContext,
        is_new: bool,
    ) -> TicketRequest {
        let (contract, proposal) = (held.contract(), held.proposal());
        let ApprovalTexts { consequence, after, before, sensitive } = contract.approval_texts(held.arguments().bytes());
        let (before, upstream_preview) =
            if is_new { self.packet_states(held, before, context).await } else { (None, None) };
        let price = contract.price().ok().filter(|price| !price.is_free()).map(ToString::to_string);
        let of_payload = (held.proposal_digest(), held.arguments().bytes().clone());
        TicketRequest {
            id: TicketId::new(),
            key: held.ticket_key(),
            demand: held.demand().clone(),
            subject: TicketSubject {
                consequence,
                after,
                before,
                upstream_preview,
                compensation: contract.contract().transactional.compensation_tool.clone(),
                operation: operation.key.can_come_again().then(|| operation.key.to_string()),
                price,
                sensitive,
                ..ticket_subject(proposal, contract, context, of_payload)
            },
        }
    }

    /// Makes a permit of an approved call. The error has the call back, and a refusal; none if the ticket was superseded.
    async fn with_warrant(
        &self,
        held: Box<HeldCall>,
        ticket: &Ticket,
    ) -> Result<Permit, (Box<HeldCall>, Option<Box<Refusal>>)> {
        let approvals = &self.core.approvals;
        if !is_still_eligible(ticket, self.snapshot.authorities.approvals()) {
            let reason = "a person who approved it may no longer decide".to_owned();
            let target = TicketTarget::Id(ticket.id.clone());
            return match approvals.apply(target, TicketEvent::Supersede { reason }).await {
                Ok(_) => Err((held, None)),
                Err(error) => Err(refused(held, |call_id| words::store_away(call_id, &error))),
            };
        }
        let keys = async {
            let (signing, public) = (approvals.keys().signing_key().await?, approvals.keys().public_keys().await?);
            Ok::<_, crate::approvals::AttestationKeysError>((signing, public))
        };
        let (signing, public) = match keys.await {
            Ok(keys) => keys,
            Err(error) => return Err(refused(held, |call_id| words::no_keys(call_id, &error))),
        };
        let Ok(Some(warrant)) = Warrant::issue(ticket, &signing) else {
            return Err(refused(held, words::unreachable));
        };
        let shown = ShownWarrant {
            warrant: &warrant,
            ticket: &ticket.id,
            trace_id: &ticket.subject.trace_id,
            keys: &public,
            now_ms: self.core.clock.now().unix_ms(),
        };
        held.confirm(&shown).map_err(|(held, fault)| {
            tracing::error!(ticket = %ticket.id, call_id = %held.call_id(), %fault, "an approval was not accepted");
            refused(held, |call_id| words::not_accepted(call_id, fault))
        })
    }

    /// Until when the caller waits for people.
    fn waits_until(&self, context: &CallContext) -> Instant {
        let of_gateway = Duration::from_millis(self.snapshot.authorities.approvals().wait_ms_max);
        let of_caller = context.terms.caller_wait_ms.map(|ms| Duration::from_millis(ms.saturating_sub(RESERVE_MS)));
        context.started + of_caller.map_or(of_gateway, |of_caller| of_gateway.min(of_caller))
    }

    /// Waits until the ticket changes. Returns whether it did; the caller may not wait any longer, or may have left.
    async fn wait_for_decision(&self, ticket: &Ticket, until: Instant, context: &CallContext) -> bool {
        let mut changes = self.core.approvals.changes();
        let _waits = self.core.approvals.note_waiting(&ticket.id);
        let mut told_at = None;
        while Instant::now() < until {
            if told_at.is_none_or(|told_at: Instant| told_at.elapsed() >= PROGRESS_EVERY) {
                told_at = Some(Instant::now());
                tell_waiting(ticket, context);
            }
            tokio::select! {
                biased;
                () = context.terms.cancel.cancelled() => return false,
                _ = changes.changed() => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)) => {}
            }
            let found = self.core.approvals.latest(&TicketTarget::Id(ticket.id.clone())).await;
            match found {
                Ok(Some(found)) if found.state == TicketState::Pending && found.decisions == ticket.decisions => {}
                // A store that is away is asked again by the request itself.
                _ => return true,
            }
        }
        false
    }

    /// The refusal of a call that waits for people.
    fn pending(&self, ticket: &Ticket) -> Box<Refusal> {
        let console_url = self.snapshot.authorities.approvals().console_url.as_deref();
        let plan_tool = self.snapshot.takes_plans().then_some(PLAN_TOOL);
        words::pending(&self.record.call_id, &self.record.tool, ticket, (console_url, plan_tool))
    }
}

/// Whether a call joins this ticket, uses its approval or is refused by its denial, as far as this gateway's clock tells. The store decides.
fn answers(ticket: &Ticket, held: &HeldCall, now_ms: u64) -> bool {
    let is_denied = ticket.state == TicketState::Denied && now_ms < denial_held_until_ms(ticket);
    let is_open = ticket.subject.payload == held.proposal_digest() && counts_now(ticket, held.demand(), now_ms);
    is_denied || is_open
}

fn refused(
    held: Box<HeldCall>,
    refusal: impl FnOnce(&servanda_contract::CallId) -> Box<Refusal>,
) -> (Box<HeldCall>, Option<Box<Refusal>>) {
    let refusal = refusal(held.call_id());
    (held, Some(refusal))
}

/// Tells the client that its call waits for a person, if the client wants to know.
fn tell_waiting(ticket: &Ticket, context: &CallContext) {
    let Some(sink) = context.terms.messages.as_ref().filter(|_| context.terms.wants_progress) else { return };
    let waited_s = context.started.elapsed().as_secs();
    let message = format!("waiting for approval by {}", ticket.demand.describe());
    let params = json!({ "progress": waited_s, "message": message }).to_string();
    if let Ok(params) = RawValue::from_string(params) {
        // A full channel loses it.
        let _ = sink.try_send(ClientMessage::Progress(params));
    }
}
