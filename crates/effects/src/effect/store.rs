//! The port through which stores keep effects: one change with its record and its notices, applied in one transaction; and what is
//! asked about effects.
//!
//! Deliberately not here: what follows on an event, which every store takes from [`step`](super::step()).

use std::{fmt, sync::Arc};

use bytes::Bytes;
use servanda_contract::CallRecord;

use super::{Effect, EffectEnding, EffectEvent, EffectId, EffectKey, EffectQuery, EffectReply, OrphanQuery, OwnerId};
use crate::{JournalError, Note, PortFuture};

/// Which effect an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectTarget {
    /// The one of a key; it may not be there yet.
    Key(EffectKey),
    /// The one of a handle.
    Id(EffectId),
}

/// An event for a store to apply: read, [`step`](super::step()), write, and the record beside it, all in one transaction.
#[derive(Debug)]
pub struct EffectChange {
    /// Which effect.
    pub target: EffectTarget,
    /// What happens to it.
    pub event: EffectEvent,
    /// The record of the call, written if and only if the effect changes.
    pub record: Option<CallRecord>,
    /// An answer that broke its contract, kept beside the record.
    pub quarantine: Option<Bytes>,
    /// What is to be told of how it ended, written if and only if the effect changes and comes to that.
    pub notices: Vec<Notice>,
}

/// A note that is written with a change, unless there is one of its kind and key, where that change ends the effect so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How the effect has to end for it.
    pub ending: EffectEnding,
    /// The note.
    pub note: Note,
}

/// What became of a change.
#[derive(Debug, Clone)]
pub struct AppliedChange {
    /// What it came to.
    pub reply: EffectReply,
    /// The effect afterwards; none if there is none.
    pub effect: Option<Arc<Effect>>,
}

/// Where effects are kept. Reads that decide something see every change that was acknowledged anywhere.
pub trait EffectStore: Send + Sync + fmt::Debug {
    /// Applies one event in one transaction and returns the result. After an error it is not known whether the event was
    /// applied, so the state is read again before bytes are sent.
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>>;

    /// Why what was acknowledged may still be lost, if it may: then nothing is sent that could not be sent again.
    fn loses_commits(&self) -> Option<String> {
        None
    }

    /// The effect.
    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>>;

    /// Some effects, newest first.
    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Effects that a process has to look after: claims whose lease is over, dispatches whose owner is gone or that wait past
    /// their time, and those of the owner itself whose lease has ended, which it may hold still. At most so many of every upstream
    /// that their recovery needs ([`Effect::recovery_upstream`]), and as many that need none; the oldest first within each, and the owner's
    /// own counted apart. So an upstream with any number of orphans never hides those of another.
    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>>;

    /// Says that this process is alive. One that does not say so for a while is taken for gone.
    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>>;

    /// Why no new effects are taken at the moment, if the store is running out of room. What is under way is still settled, and keys that
    /// were used are still answered.
    fn out_of_room(&self) -> Option<String> {
        None
    }

    /// Makes tombstones of settled effects whose time is over, and forgets those that no client can ask for. Returns how many.
    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>>;
}

/// The notes that go with an effect as it has become.
pub fn notes_due<'a>(notices: &'a [Notice], effect: &Effect) -> impl Iterator<Item = &'a Note> {
    let ending = effect.state.ending();
    notices.iter().filter(move |notice| Some(notice.ending) == ending).map(|notice| &notice.note)
}
