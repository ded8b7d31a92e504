//! Legacy sessions: which there are (`table`), where they begin and are found again (`reception`), what is written down of them
//! (`note`), what their clients can still be sent (`replay_buffer`), and the task of each (`session_events`). What a session's
//! requests are answered is not known here.

mod budget;
mod note;
mod queue;
mod reception;
mod replay_buffer;
mod session_events;
mod table;

pub(super) use self::{
    reception::Reception,
    replay_buffer::{Connected, NotKept, Purpose, StreamNumber},
    table::{HttpSession, Lease, Sessions},
};
