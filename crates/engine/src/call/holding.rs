//! A call that needs an approval, as a task: a client that takes tasks gets one instead of waiting, and when people have decided, the
//! gateway makes the call again (`repeating`).
//!
//! The repetition passes every gate like any call, and uses the ticket of its task alone: it never asks people about a call that was made.
//! Deliberately not here: what is stored about the task (`long_running::held`).

use std::sync::Arc;

use servanda_approval::{DENIAL_HOLD_MS, Ticket, TicketId, TicketReply, TicketState};
use servanda_contract::record::Outcome;
use servanda_effects::ticket_store::TicketTarget;
use servanda_gates::HeldCall;
use servanda_mcp::{Era, capabilities::TASKS_EXTENSION};

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation},
    state::CallPipeline,
};
use crate::{
    answers::approvals as words,
    client::CallAnswer,
    long_running::held::{self, HeldOperation, HeldTaskNote},
    records,
};

impl CallPipeline<'_> {
    /// The exit of a call whose client gets a task; none if the client takes none, or if the call continues from a server's question.
    pub(super) async fn hold_as_task(
        &self,
        held: &HeldCall,
        ticket: &Ticket,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Option<CallExit> {
        let requester = &context.requester;
        let takes_tasks = match requester.era {
            Era::Legacy => context.task.is_some(),
            Era::Modern => requester.capabilities.has_extension(TASKS_EXTENSION),
        };
        let continues = context.was_sent_to_page || operation.continues.is_some() || self.spent_nonce.is_some();
        if !takes_tasks || continues {
            return None;
        }
        let contract = held.contract();
        let key = operation.key.can_come_again().then(|| held.effect_key(operation.key.clone()));
        let mut note = HeldTaskNote::new(ticket, held.proposal(), contract.contract(), self.core.clock.now());
        note.operation = key.map(|key| HeldOperation { key, request: held.payload_digest() });
        note.touches = contract.touched(held.arguments().bytes());
        note.program_class = self.record.policy.as_ref().and_then(|policy| policy.program_class);
        let (id, json) = held::hold(&self.calls.deferred.long_running, note, requester).await?;
        tracing::info!(task = id, ticket = %ticket.id, call_id = %held.call_id(), "a call waits for approval as a task");
        Some(CallExit::HeldAsTask { id, json })
    }

    /// Answers a call that waits as a task. Nothing was sent, and the record has the ticket.
    pub(super) async fn answer_with_held_task(mut self: Box<Self>, id: String, json: String) -> CallAnswer {
        self.record.outcome = Outcome::TaskCreated;
        self.record.task_id = Some(id);
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
        records::write_record(self.core, self.record, false, None).await;
        CallAnswer::Task(json)
    }

    /// What became of the ticket of a task, for the call that the gateway repeats. None if the call has to ask for an approval: the contract
    /// or the rules changed, or the requester is told of the end of this ticket by that.
    pub(super) async fn look_at_ticket_of_task(
        &self,
        held: &HeldCall,
        id: &TicketId,
    ) -> Result<Option<(TicketReply, Arc<Ticket>)>, CallExit> {
        let found = self.core.approvals.latest(&TicketTarget::Id(id.clone())).await;
        let found = found.map_err(|error| CallExit::refused(words::store_away(held.call_id(), &error)))?;
        let Some(ticket) = found else { return Err(CallExit::refused(words::unreachable(held.call_id()))) };
        let is_enough =
            ticket.subject.payload == held.proposal_digest() && ticket.demand.still_satisfies(held.demand());
        let reply = match ticket.state {
            TicketState::Pending if is_enough => TicketReply::Pending,
            TicketState::Approved if is_enough => TicketReply::Approved,
            TicketState::Consumed => TicketReply::NotNow,
            TicketState::Denied => {
                let decided_ms = ticket.decided_ms.unwrap_or(ticket.changed_ms);
                TicketReply::Denied { until_ms: decided_ms.saturating_add(DENIAL_HOLD_MS) }
            }
            // The requester was told already, and did not ask again.
            TicketState::AutoDenied if ticket.told => TicketReply::NobodyDecided,
            TicketState::Lapsed if ticket.told => TicketReply::Lapsed,
            _ => return Ok(None),
        };
        Ok(Some((reply, Arc::new(ticket))))
    }
}
