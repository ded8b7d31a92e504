//! Legacy sessions: the table of them (`table`), how they begin and are found again (`registry`), what is stored of
//! them (`session_notes`), what can still be sent to their clients (`replay_buffer`), and the task of each
//! (`session_events`). Deliberately not here: how a session's requests are answered.

mod byte_budget;
mod counts;
mod queue;
mod registry;
mod replay_buffer;
mod session_events;
mod session_notes;
mod table;

pub(super) use self::{
    registry::HttpSessionRegistry,
    replay_buffer::{EventNotReplayable, SessionStreamConnection, StreamNumber, StreamPurpose},
    table::{HttpSession, HttpSessionLease, HttpSessionTable},
};
