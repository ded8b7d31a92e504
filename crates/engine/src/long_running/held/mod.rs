//! Calls that wait for people as tasks. A client that takes tasks gets one for a call that needs an approval, and need not call again: when
//! people have decided, the gateway repeats the call (`call::repeating`), and the task ends as the repetition does.
//!
//! The state of a held task is stored elsewhere: the ticket says what people decided and which call used the approval, and that call's
//! effect has the result. Stored for the task itself are the call, which calls repeated it, and an end without an effect ([`note`]). This
//! process keeps which tasks it goes on with, and for whom: with the credential of the call, which is never stored. After a restart, the
//! task goes on when its client next asks for it, with the credential of that request. Two processes may go on with one task, because the
//! approval is used once. Deliberately not here: making calls, and deciding anything about them.

mod inquiry;
mod note;
mod shape;
mod view;

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use servanda_approval::TicketId;
use servanda_contract::CallId;
use servanda_effects::JournalError;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    inquiry::{find, inquire, state_for},
    note::{HeldOperation, HeldTaskEnding, HeldTaskNote},
    view::{HeldTaskStanding, HeldTaskView, view_by_id},
};
use super::LongWorkContext;
use crate::{client::Requester, core::Core};

/// How many calls of this process wait for people as tasks at once. Further calls wait with their callers, and then get the ticket.
const HELD_MAX: usize = 1_024;

/// The calls that wait for people as tasks and with which this process goes on.
#[derive(Debug, Default)]
pub(crate) struct HeldTasks {
    table: Mutex<HeldTaskTable>,
    entered: Notify,
    is_served: AtomicBool,
}

#[derive(Debug, Default)]
struct HeldTaskTable {
    tasks: BTreeMap<String, Arc<HeldTask>>,
    /// The last task whose ticket was looked at; the next ones come after it.
    looked_at: String,
}

/// A call that waits for people as a task.
#[derive(Debug)]
pub(crate) struct HeldTask {
    pub(crate) id: String,
    /// Cancelled when the client cancels the task.
    pub(crate) cancel: CancellationToken,
    state: Mutex<HeldTaskState>,
}

#[derive(Debug)]
struct HeldTaskState {
    ticket: TicketId,
    /// Who is to make the call: the client with its latest credential.
    requester: Requester,
    is_repeated: bool,
    rests_until: Option<Instant>,
}

/// This process goes on with held tasks until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldTaskService<'a>(&'a HeldTasks);

/// Makes a task of a call that waits for people, and returns the answer for its client. None if this process goes on with no tasks or has
/// too many, or if the task cannot be stored.
pub(crate) async fn hold(
    long_running: &LongWorkContext,
    note: HeldTaskNote,
    requester: &Requester,
) -> Option<(String, String)> {
    let LongWorkContext { core, lists, held, .. } = long_running;
    if !held.has_room() {
        return None;
    }
    let id = uuid::Uuid::new_v4().to_string();
    let stored = async {
        note::write(core, &id, &note).await?;
        lists.add(core, &note.caller, &id, note.expires_at).await
    };
    if let Err(error) = stored.await {
        tracing::warn!(call_id = %note.call_id, %error, "a call that waits for approval could not be stored as a task");
        return None;
    }
    let (ticket, era) = (note.ticket.clone(), requester.era);
    let seen = HeldTaskView { id: id.clone(), note, standing: HeldTaskStanding::Waiting(None) };
    let created = shape::created(&seen, era);
    held.enter(&id, ticket, requester);
    Some((id, created))
}

/// Stores that this call goes on with the task, before it is made.
pub(crate) async fn note_repetition(core: &Core, seen: &HeldTaskView, call_id: &CallId) -> Result<(), JournalError> {
    note::write_repetition(core, &seen.id, &seen.note, call_id).await
}

/// Stores that the call waits for another ticket now.
pub(crate) async fn wait_for(core: &Core, task: &HeldTask, seen: &HeldTaskView, ticket: TicketId) {
    let mut note = seen.note.clone();
    note.ticket = ticket.clone();
    match note::write(core, &task.id, &note).await {
        Ok(()) => task.locked().ticket = ticket,
        // It is stored when the ticket is looked at again.
        Err(error) => tracing::warn!(task = task.id, %error, "the new ticket of a task could not be stored"),
    }
}

/// Stores how a task ended, and tells its listeners. Returns whether an end is stored.
pub(crate) async fn end(core: &Arc<Core>, seen: &HeldTaskView, how: HeldTaskEnding) -> bool {
    match note::write_end(core, &seen.id, &seen.note, how).await {
        Ok(_) => {
            announce(core, &seen.id).await;
            true
        }
        Err(error) => {
            tracing::warn!(task = seen.id, %error, "the end of a task could not be stored");
            false
        }
    }
}

/// Announces the state of a task to its listeners, to each in the form of its era.
pub(crate) async fn announce(core: &Arc<Core>, id: &str) {
    if core.change_events.receiver_count() == 0 {
        return;
    }
    if let Some(seen) = view_by_id(core, id).await {
        shape::announce(core, &seen);
    }
}

impl HeldTasks {
    /// Says that this process goes on with held tasks.
    pub(crate) fn serve(&self) -> HeldTaskService<'_> {
        self.is_served.store(true, Ordering::SeqCst);
        HeldTaskService(self)
    }

    fn has_room(&self) -> bool {
        self.is_served.load(Ordering::SeqCst) && self.locked().tasks.len() < HELD_MAX
    }

    /// Goes on with a task for this client when people have decided. A client that asks again has a newer credential.
    pub(super) fn enter(&self, id: &str, ticket: TicketId, requester: &Requester) {
        if !self.is_served.load(Ordering::SeqCst) {
            return;
        }
        let mut table = self.locked();
        if let Some(task) = table.tasks.get(id) {
            let mut state = task.locked();
            state.requester = requester.clone();
            state.rests_until = None;
            return;
        }
        if table.tasks.len() >= HELD_MAX {
            return;
        }
        let state = HeldTaskState { ticket, requester: requester.clone(), is_repeated: false, rests_until: None };
        let task = HeldTask { id: id.to_owned(), cancel: CancellationToken::new(), state: Mutex::new(state) };
        table.tasks.insert(id.to_owned(), Arc::new(task));
        drop(table);
        self.entered.notify_one();
    }

    /// Waits until a task is entered.
    pub(crate) async fn entered(&self) {
        self.entered.notified().await;
    }

    /// The next tasks whose tickets are to be looked at, in turn, at most `limit`.
    pub(crate) fn next(&self, limit: usize) -> Vec<Arc<HeldTask>> {
        let mut table = self.locked();
        let after = table.tasks.range::<str, _>((Bound::Excluded(table.looked_at.as_str()), Bound::Unbounded));
        let before = table.tasks.range::<str, _>((Bound::Unbounded, Bound::Included(table.looked_at.as_str())));
        let next: Vec<_> = after.chain(before).take(limit).map(|(_, task)| Arc::clone(task)).collect();
        table.looked_at = next.last().map(|task| task.id.clone()).unwrap_or_default();
        next.into_iter().filter(|task| task.is_due()).collect()
    }

    /// Goes on with a task no longer: it has ended.
    pub(crate) fn leave(&self, id: &str) -> Option<Arc<HeldTask>> {
        self.locked().tasks.remove(id)
    }

    fn locked(&self) -> MutexGuard<'_, HeldTaskTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldTask {
    /// The ticket that it waits for.
    pub(crate) fn ticket(&self) -> TicketId {
        self.locked().ticket.clone()
    }

    /// Who is to make the call.
    pub(crate) fn requester(&self) -> Requester {
        self.locked().requester.clone()
    }

    /// Begins a repetition; false if one is under way.
    pub(crate) fn begin_repetition(&self) -> bool {
        !std::mem::replace(&mut self.locked().is_repeated, true)
    }

    /// Ends a repetition after which the call still waits, and does not look at the ticket for a while.
    pub(crate) fn rest(&self, rest: Duration) {
        let mut state = self.locked();
        state.is_repeated = false;
        state.rests_until = Some(Instant::now() + rest);
    }

    fn is_due(&self) -> bool {
        let state = self.locked();
        !state.is_repeated && state.rests_until.is_none_or(|until| Instant::now() >= until)
    }

    fn locked(&self) -> MutexGuard<'_, HeldTaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldTaskService<'_> {
    fn drop(&mut self) {
        self.0.is_served.store(false, Ordering::SeqCst);
    }
}
