//! Legacy sessions: which there are (`table`), where they begin and are found again (`registry`), what is written down of them
//! (`note`), what their clients can still be sent (`replay_buffer`), and the task of each (`session_events`). What a session's
//! requests are answered is not known here.

mod byte_budget;
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
