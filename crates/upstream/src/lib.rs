//! Performs a fenced call on an MCP server over stdio or Streamable HTTP, in both eras of the protocol.
//!
//! An [`Upstream`] is one configured server: it connects when first needed, finds out which era the server speaks, keeps
//! the connection, restarts what died, and moves raw JSON in both directions. Whether a call may be made, whether an answer
//! keeps its contract and whether anything is sent again are decided elsewhere: this crate says what happened, and whether
//! it is provable that nothing did.

mod announcement;
mod connect;
mod delivery;
mod failure;
mod frame;
mod handshake;
mod http;
mod last_words;
mod lifecycle;
mod link;
mod message;
mod name_header;
mod oversized;
mod parcel;
mod pending;
mod process;
mod redaction;
mod spec;
mod sse;
mod stdio;
mod tool_list;
mod upstream;

#[cfg(test)]
mod tests;

pub use delivery::{
    Announcement, Answer, Ask, Continuation, Counterpart, Delivery, Offer, Performed, Question, Remark, RemarkSink,
    Reply,
};
pub use failure::{PerformFailure, UpstreamError};
pub use lifecycle::UpstreamStatus;
pub use spec::{Limits, Transport, UpstreamId, UpstreamSpec};
pub use tool_list::{ListedTool, RejectedTool, ToolList};
pub use upstream::Upstream;
