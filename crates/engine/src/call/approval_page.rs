//! Sends the person of a modern client to the page on which people decide: the call is answered with `input_required` and the address of its
//! ticket.
//!
//! The client's answer decides nothing, whatever it says: it is not even read. The same call made again looks at the ticket, waits for people
//! for a while, and is then answered like every other call. The address carries no right: people sign in there. Deliberately not here: forms,
//! because a client may fill one in by itself.

use servanda_approval::Ticket;
use servanda_contract::record::Outcome;
use servanda_mcp::fields::method;

use super::{
    context::CallContext,
    evidence::{CallExit, CallOperation},
    state::CallPipeline,
};
use crate::{answers::approvals as words, client::CallAnswer, records};

impl CallPipeline<'_> {
    /// The exit of a call whose client shows its person the ticket's page; none if the client cannot, or was asked already.
    pub(super) async fn send_to_page(
        &self,
        ticket: &Ticket,
        operation: &CallOperation,
        context: &CallContext,
    ) -> Option<CallExit> {
        let console_url = self.snapshot.authorities.approvals().console_url.as_deref()?;
        let binding = context.binding.as_ref()?;
        // A call that continues from a server's question keeps that state, and long work may have no client left.
        if context.was_sent_to_page
            || operation.continues.is_some()
            || self.spent_nonce.is_some()
            || self.work.is_some()
        {
            return None;
        }
        let params = words::page_question(&self.record.tool, ticket, console_url)?;
        if !context.requester.capabilities.answers(method::ELICITATION_CREATE, Some(&params)) {
            return None;
        }
        let asked = self.calls.bridge.approval_page_result(ticket.id.as_str(), &params, binding).await;
        // Without a state the client could not come back, so it waits like others.
        asked.ok().map(CallExit::SentToPage)
    }

    /// Answers a call whose client shows the page. Nothing was sent, and the record has the ticket.
    pub(super) async fn answer_with_page(mut self: Box<Self>, json: String) -> CallAnswer {
        self.record.outcome = Outcome::InputRequired;
        self.record.finished_at = Some(self.core.clock.now());
        self.record.verdicts = self.trail.take_verdicts();
        records::write_record(self.core, self.record, false, None).await;
        CallAnswer::InputRequired(json)
    }
}
