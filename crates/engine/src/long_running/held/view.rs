//! The state of a held task, as far as its principal may know it. Another principal's task is treated as if it did not exist.

use servanda_approval::Ticket;
use servanda_effects::{
    effect::{EffectId, EffectReply, EffectTarget, standing_reply},
    ticket_store::TicketTarget,
};

use super::{
    super::view::{self, LongWorkView},
    note::{self, HeldTaskEnd, HeldTaskNote},
};
use crate::{call_visibility::PastCall, client::Requester, core::Core};

/// The longest id that is looked up.
const ID_CHARS_MAX: usize = 128;

/// A held task in its present state.
#[derive(Debug)]
pub(crate) struct HeldTaskView {
    pub(crate) id: String,
    pub(crate) note: HeldTaskNote,
    pub(crate) standing: HeldTaskStanding,
}

/// How far a held task has come.
#[derive(Debug)]
pub(crate) enum HeldTaskStanding {
    /// It waits for people, or for the gateway to go on. None if the ticket cannot be read.
    Waiting(Option<Box<Ticket>>),
    /// It was dispatched: this is its effect.
    Begun(Box<LongWorkView>),
    /// It ended without an effect.
    Ended(HeldTaskEnd),
}

/// The task with this id, if the requester may see it.
pub(super) async fn view_for(core: &Core, requester: &Requester, id: &str) -> Option<HeldTaskView> {
    let seen = view_by_id(core, id).await?;
    let HeldTaskNote { caller, tool, contract, touches, program_class, .. } = &seen.note;
    let past = PastCall { owner: caller, exposed_tool: tool, contract, touches, program_class: *program_class };
    past.is_visible_to(requester, &core.snapshot(), core.clock.now()).then_some(seen)
}

/// The task with this id, without checking whose it is.
pub(crate) async fn view_by_id(core: &Core, id: &str) -> Option<HeldTaskView> {
    if id.chars().nth(ID_CHARS_MAX).is_some() {
        return None;
    }
    let note = note::read(core, id).await?;
    let ticket = core.approvals.latest(&TicketTarget::Id(note.ticket.clone())).await.ok().flatten();
    // An effect says more than a stored end: a cancellation may have come too late.
    let standing = match begun(core, id, &note, ticket.as_ref()).await {
        Some(work) => HeldTaskStanding::Begun(Box::new(LongWorkView { task_id: Some(id.to_owned()), ..work })),
        None => match note::end(core, id).await {
            Some(end) => HeldTaskStanding::Ended(end),
            None => HeldTaskStanding::Waiting(ticket.map(Box::new)),
        },
    };
    Some(HeldTaskView { id: id.to_owned(), note, standing })
}

/// The effect of the task: that of a repetition which used the approval, or that of the operation which the client named.
async fn begun(core: &Core, id: &str, note: &HeldTaskNote, ticket: Option<&Ticket>) -> Option<LongWorkView> {
    if let Some(used) = ticket.and_then(|ticket| ticket.consumed.as_ref())
        && note::is_repetition(core, id, &used.call_id).await
    {
        return view::view_by_id(core, &EffectId::from(used.effect_id.clone())).await;
    }
    let operation = note.operation.as_ref()?;
    let found = core.effects.find(EffectTarget::Key(operation.key.clone())).await.ok()??;
    let is_the_operation = match standing_reply(&found, operation.request) {
        None | Some(EffectReply::Mismatch) => false,
        Some(_) => true,
    };
    if is_the_operation { view::view_by_id(core, &found.id).await } else { None }
}

impl HeldTaskView {
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.standing, HeldTaskStanding::Waiting(_))
    }
}
