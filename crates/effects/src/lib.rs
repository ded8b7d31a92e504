//! What a call may do to the world and how much it may spend, as two pure state machines ([`effect`],
//! [`budget`]); and the ports through which stores keep their states, the records of calls ([`Journal`], read by [`CallHistory`]) and
//! small facts ([`Notebook`]), the tickets of approvals ([`TicketStore`]), and the verifiable log ([`AuditLog`]).
//!
//! Every store runs the same machine inside its own transaction, so that no two stores can disagree about what
//! is safe. The in-memory stores, which last as long as the process, are here too, for one-off commands and for
//! tests.
//!
//! No I/O and no clock. Deliberately not here: whether a call may be made, which the gates decide. Nothing here
//! is evidence that they permitted it: a [`Claim`](effect::Claim) says which process may settle an effect, and
//! lets no byte out.

pub mod audit_log;
pub mod budget;
pub mod call_history;
pub mod effect;
mod failure_streak;
mod journal;
mod notebook;
mod resource;
pub mod ticket_store;

pub use audit_log::{AuditLog, LogHead, LoggedChange, LoggedThing};
pub use call_history::CallHistory;
pub use failure_streak::FailureStreak;
pub use journal::{Journal, JournalError, PortFuture, RecordsRefused};
pub use notebook::{InMemoryNotebook, Note, NoteKind, Notebook};
pub use resource::{ANYTHING, all_touched, overlap};
pub use ticket_store::TicketStore;
