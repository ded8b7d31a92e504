//! The port through which stores keep effects: one change with its record and its notices, applied in one
//! transaction; and queries about effects.
//!
//! Deliberately not here: the result of an event, which every store takes from [`step`](super::step()).

use std::{fmt, sync::Arc};

use bytes::Bytes;
use servanda_approval::ApprovalUse;
use servanda_contract::CallRecord;

use super::{Effect, EffectEnding, EffectEvent, EffectId, EffectKey, EffectQuery, EffectReply, OrphanQuery, OwnerId};
use crate::{JournalError, Note, PortFuture};

/// Which effect an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectTarget {
    /// The effect of a key; it may not exist yet.
    Key(EffectKey),
    /// The effect with a handle.
    Id(EffectId),
}

/// An event for a store to apply: read, [`step`](super::step()), write, and the record with it, all in one
/// transaction.
#[derive(Debug)]
pub struct EffectChange {
    /// Which effect.
    pub target: EffectTarget,
    /// What happens to it.
    pub event: EffectEvent,
    /// The record of the call, written if and only if the effect changes.
    pub record: Option<CallRecord>,
    /// An answer that broke its contract, stored with the record.
    pub quarantine: Option<Bytes>,
    /// Notes about its end, written if and only if the change ends the effect that way.
    pub notices: Vec<Notice>,
    /// The approval that the call uses up if the reply to the event is [`EffectReply::Mine`]. If the approval cannot be used, nothing is
    /// changed, and the reply is [`EffectReply::NotApproved`].
    pub consumes: Option<ApprovalUse>,
}

/// A note that is written with a change if that change ends the effect as given, unless a note of its kind and
/// key exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How the effect has to end.
    pub ending: EffectEnding,
    /// The note.
    pub note: Note,
}

impl EffectChange {
    /// An event without a record, notices or an approval.
    pub const fn new(target: EffectTarget, event: EffectEvent) -> Self {
        Self { target, event, record: None, quarantine: None, notices: Vec::new(), consumes: None }
    }
}

/// The result of a change.
#[derive(Debug, Clone)]
pub struct AppliedChange {
    /// The reply to the event.
    pub reply: EffectReply,
    /// The effect afterwards; none if there is none.
    pub effect: Option<Arc<Effect>>,
}

/// Stores effects. Reads that decide something see every acknowledged change of every gateway.
pub trait EffectStore: Send + Sync + fmt::Debug {
    /// Applies one event in one transaction and returns the result. After an error it is not known whether the event was
    /// applied, so the state is read again before bytes are sent.
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>>;

    /// Why an acknowledged commit may still be lost, if it may. Then nothing is sent that could not be sent
    /// again.
    fn loses_commits(&self) -> Option<String> {
        None
    }

    /// The effect.
    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>>;

    /// Lists effects, newest first.
    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Effects that a process has to recover: claims whose lease has ended, dispatches whose owner is gone or that have waited past their
    /// time, and the process's own dispatches whose lease has ended, which it may still hold. At most `each_max` of every upstream that
    /// their recovery needs ([`Effect::recovery_upstream`]), and as many that need none; oldest first within each, and the process's own
    /// counted separately. So an upstream with any number of orphans never hides those of another.
    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Notes that this process is alive. A process that does not do so for a while counts as gone.
    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>>;

    /// Why no new effects are accepted at the moment, if the store is running out of room. Effects under way
    /// are still settled, and calls with used keys are still answered.
    fn out_of_room(&self) -> Option<String> {
        None
    }

    /// Why the verifiable log cannot keep up, if it cannot: leaves wait for their place or for a signature for too long. Then no high-risk
    /// call begins.
    fn log_is_behind(&self) -> Option<String> {
        None
    }

    /// Turns settled effects whose window is over into tombstones, and forgets those that no client can ask
    /// for. Returns how many.
    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>>;
}

/// The notes to write for an effect in its new state.
pub fn notes_due<'a>(notices: &'a [Notice], effect: &Effect) -> impl Iterator<Item = &'a Note> {
    let ending = effect.state.ending();
    notices.iter().filter(move |notice| Some(notice.ending) == ending).map(|notice| &notice.note)
}
