//! The jobs of a writer, for every store alike: what to write or change, and whom to answer.
//!
//! Deliberately not here: how jobs get to the writer (`queue`) and are gathered into a batch (`inbox`).

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use servanda_approval::{ApprovalUse, TicketEvent};
use servanda_contract::{CallRecord, Timestamp};
use servanda_effects::{
    JournalError, LogHead, LoggedChange, Note, NoteKind,
    budget::{AccountEntry, EntryReply, SweepReport},
    effect::{AppliedChange, DispatchEnd, EffectEvent, EffectTarget, Notice, OwnerId, StoredAnswer},
    ticket_store::{AppliedTicket, TicketTarget},
};
use tokio::sync::oneshot;

use crate::{
    LedgerError,
    codec::{CallRow, encode_call},
    encoding::dictionary::Dictionary,
    retention::{PruneReport, PruneRound},
};

/// One thing to write.
#[derive(Debug)]
pub(crate) enum LedgerWrite {
    /// The record of a call.
    Call(Box<CallRecordWrite>),
    /// A note; it replaces one of the same kind and key.
    Note(Note),
    /// A note, unless one exists.
    FirstNote(Note),
    /// Removes a note.
    Erasure { kind: NoteKind, key: String },
    /// A process is alive.
    Beat(OwnerId),
    /// What calls are found by and counted as, merged into the index, if the store has put some of it aside.
    MergedIndex,
    /// The signed checkpoint of the verifiable log.
    Checkpoint { size: u64, note: String },
}

/// The record of a call, and its answer if that was quarantined. The writer encodes it, so that no call spends
/// time on it.
#[derive(Debug)]
pub(crate) struct CallRecordWrite {
    pub(crate) record: CallRecord,
    pub(crate) quarantine: Option<Bytes>,
    encoded: Option<Vec<u8>>,
}

/// A note that is written if the one that is there is the one that was found.
#[derive(Debug)]
pub(crate) struct NoteChange {
    pub(crate) note: Note,
    /// The value that was found; none if there was no note.
    pub(crate) found: Option<String>,
    /// What has expired by then counts as absent.
    pub(crate) now: Timestamp,
    /// What the log tells if it is written.
    pub(crate) changes: Vec<LoggedChange>,
}

/// Receives the result of a job, once that is durable.
pub(crate) type JobResponder<T> = oneshot::Sender<Result<T, JournalError>>;

/// One thing to do in a transaction.
#[derive(Debug)]
pub(crate) enum Job {
    /// Writes something; its caller may wait for it.
    Put { write: LedgerWrite, done: Option<JobResponder<()>> },
    /// Applies an event to an effect.
    Apply {
        target: EffectTarget,
        event: EffectEvent,
        recorded: Option<Box<CallRecordWrite>>,
        notices: Vec<Notice>,
        /// The approval that it uses up if the effect is the caller's.
        consumes: Option<Box<ApprovalUse>>,
        done: JobResponder<AppliedChange>,
    },
    /// Writes a note on a condition.
    NoteIf { change: Box<NoteChange>, done: JobResponder<bool> },
    /// Turns expired effects into tombstones.
    Expire { limit: u32, done: JobResponder<u64> },
    /// Applies an event to a ticket.
    Ticket { target: TicketTarget, event: Box<TicketEvent>, done: JobResponder<AppliedTicket> },
    /// Makes an entry in the accounts of budgets.
    Book { entry: AccountEntry, done: JobResponder<EntryReply> },
    /// Closes abandoned reservations.
    Sweep { limit: u32, done: JobResponder<SweepReport> },
    /// Takes leaves into the tree of the verifiable log.
    ExtendLog { done: JobResponder<LogHead> },
    /// Removes some rows whose retention is over.
    Prune { round: PruneRound, done: JobResponder<PruneReport> },
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum JobOutcome {
    Put,
    Applied(Box<AppliedChange>),
    Ticket(AppliedTicket),
    NoteIf(bool),
    Expired(u64),
    Booked(EntryReply),
    Swept(SweepReport),
    Log(LogHead),
    Pruned(PruneReport),
}

impl CallRecordWrite {
    pub(crate) fn new(record: CallRecord, quarantine: Option<Bytes>) -> Box<Self> {
        Box::new(Self { record, quarantine, encoded: None })
    }

    /// Encodes a record without the dictionary.
    pub(crate) fn encode_alone(record: CallRecord) -> Result<Self, LedgerError> {
        let encoded = Some(encode_call(&record, &mut Dictionary::default())?);
        Ok(Self { record, quarantine: None, encoded })
    }

    /// The columns of the record.
    pub(crate) fn row(&self) -> Result<CallRow<'_>, LedgerError> {
        Ok(CallRow::new(&self.record, self.body()?))
    }

    /// The record as it is stored.
    pub(crate) fn body(&self) -> Result<&[u8], LedgerError> {
        self.encoded.as_deref().ok_or_else(|| LedgerError::Record {
            call_id: self.record.call_id.to_string(),
            reason: "it was not encoded".to_owned(),
        })
    }
}

impl Job {
    pub(crate) fn is_awaited(&self) -> bool {
        !matches!(self, Self::Put { done: None, .. })
    }

    /// Whether a reader waits until the index of calls is merged.
    pub(crate) fn merges_index(&self) -> bool {
        matches!(self, Self::Put { write: LedgerWrite::MergedIndex, .. })
    }

    /// The bytes of answers and arguments. Everything else in a job is small.
    pub(crate) fn bytes(&self) -> usize {
        let moved = match self {
            Self::Apply { event: EffectEvent::Begin(begin), .. } => begin.order.arguments.len(),
            Self::Ticket { event, .. } => match &**event {
                TicketEvent::Request(request) | TicketEvent::Cover(request) => request.subject.arguments.len(),
                _ => 0,
            },
            Self::Apply {
                event: EffectEvent::Settle(_, DispatchEnd::Completed(answer) | DispatchEnd::Failed(answer)),
                ..
            } => match answer {
                StoredAnswer::Result(answer) => answer.len(),
                _ => 0,
            },
            _ => 0,
        };
        let kept = self.recorded().and_then(|recorded| recorded.quarantine.as_ref());
        moved.saturating_add(kept.map_or(0, Bytes::len))
    }

    /// Encodes the record of the job, if it has one. If the record cannot be encoded, only this job fails, when
    /// it is done.
    pub(crate) fn encode(&mut self, dictionary: &mut Dictionary) {
        if let Self::Put { write: LedgerWrite::Call(recorded), .. } | Self::Apply { recorded: Some(recorded), .. } =
            self
        {
            recorded.encoded = encode_call(&recorded.record, dictionary)
                .inspect_err(|error| tracing::error!(%error, "a record cannot be encoded"))
                .ok();
        }
    }

    /// The record that the job writes, if it has one.
    pub(crate) fn recorded(&self) -> Option<&CallRecordWrite> {
        match self {
            Self::Put { write: LedgerWrite::Call(recorded), .. } | Self::Apply { recorded: Some(recorded), .. } => {
                Some(recorded)
            }
            _ => None,
        }
    }

    /// The notices to write when the effect ends.
    pub(crate) fn notices(&self) -> &[Notice] {
        match self {
            Self::Apply { notices, .. } => notices,
            _ => &[],
        }
    }

    /// The approval that the job uses up.
    pub(crate) fn consumes(&self) -> Option<&ApprovalUse> {
        match self {
            Self::Apply { consumes, .. } => consumes.as_deref(),
            _ => None,
        }
    }

    /// Whether it is the record of a call and nothing else.
    pub(crate) fn is_record(&self) -> bool {
        matches!(self, Self::Put { write: LedgerWrite::Call(_), .. })
    }

    /// Whether it says that a process is alive. That is said again soon.
    pub(crate) fn is_beat(&self) -> bool {
        matches!(self, Self::Put { write: LedgerWrite::Beat(_), .. })
    }

    /// Tells whoever waits for a record that it is not durable yet. Nobody waits for it from then on.
    pub(crate) fn stop_waiting(&mut self, error: &JournalError) {
        if let Self::Put { write: LedgerWrite::Call(_), done } = self
            && let Some(done) = done.take()
        {
            let _ = done.send(Err(error.clone()));
        }
    }

    /// Answers the waiting caller. If the caller has gone, the write still stands.
    pub(crate) fn answer(self, outcome: Result<JobOutcome, JournalError>, lost: &AtomicU64) {
        if let Err(error) = &outcome {
            // What is not merged is still there.
            if !self.merges_index() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
            // A store that is away is told once for all jobs (`store_outage`).
            if error.is_bad_content() {
                tracing::error!(what = %self, %error, "the ledger could not write something");
            } else {
                tracing::debug!(what = %self, %error, "the ledger could not write something");
            }
        }
        let odd = || JournalError::new("the ledger's writer returned the wrong kind of result");
        match self {
            Self::Put { done: None, .. } => {}
            Self::Put { done: Some(done), .. } => drop(done.send(outcome.map(|_| ()))),
            Self::Apply { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Applied(applied) => Ok(*applied),
                _ => Err(odd()),
            }))),
            Self::Ticket { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Ticket(applied) => Ok(applied),
                _ => Err(odd()),
            }))),
            Self::NoteIf { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::NoteIf(written) => Ok(written),
                _ => Err(odd()),
            }))),
            Self::Expire { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Expired(count) => Ok(count),
                _ => Err(odd()),
            }))),
            Self::Book { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Booked(booked) => Ok(booked),
                _ => Err(odd()),
            }))),
            Self::Sweep { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Swept(swept) => Ok(swept),
                _ => Err(odd()),
            }))),
            Self::ExtendLog { done } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Log(head) => Ok(head),
                _ => Err(odd()),
            }))),
            Self::Prune { done, .. } => drop(done.send(outcome.and_then(|outcome| match outcome {
                JobOutcome::Pruned(pruned) => Ok(pruned),
                _ => Err(odd()),
            }))),
        }
    }
}

/// For the log: names the job, never its content.
impl fmt::Display for Job {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { write, .. } => write.fmt(formatter),
            Self::Apply { recorded: Some(recorded), .. } => {
                write!(formatter, "an effect of {}", recorded.record.call_id)
            }
            Self::Apply { .. } => formatter.write_str("an effect"),
            Self::NoteIf { change, .. } => write!(formatter, "a {} note", change.note.kind.as_str()),
            Self::Expire { .. } => formatter.write_str("the expiry of old effects"),
            Self::Ticket { .. } => formatter.write_str("a ticket of an approval"),
            Self::Book { entry, .. } => write!(formatter, "a budget's entry of {}", entry.id()),
            Self::Sweep { .. } => formatter.write_str("the closing of old reservations"),
            Self::ExtendLog { .. } => formatter.write_str("the order of the verifiable log"),
            Self::Prune { .. } => formatter.write_str("the pruning of old rows"),
        }
    }
}

impl fmt::Display for LedgerWrite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(recorded) => write!(formatter, "{}", recorded.record.call_id),
            Self::Note(note) | Self::FirstNote(note) => write!(formatter, "a {} note", note.kind.as_str()),
            Self::Erasure { kind, .. } => write!(formatter, "the removal of a {} note", kind.as_str()),
            Self::Beat(_) => formatter.write_str("a beat"),
            Self::MergedIndex => formatter.write_str("the index of calls"),
            Self::Checkpoint { size, .. } => write!(formatter, "the log's checkpoint of {size} leaves"),
        }
    }
}
