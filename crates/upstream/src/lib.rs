//! Performs a fenced call on an MCP server over stdio or Streamable HTTP, in both eras of the protocol.
//!
//! An [`Upstream`] is one configured server: it connects when first needed, finds out which era the server speaks, keeps
//! the connection, restarts what died, and moves raw JSON in both directions. Whether a call may be made, whether an answer
//! keeps its contract and whether anything is sent again are decided elsewhere: this crate says what happened, and whether
//! it is provable that nothing did.

mod announcement;
mod attached;
mod complaints;
mod connect;
mod connection;
mod conversation;
mod credential;
mod credentials;
mod delivery;
mod dispatch;
mod duplex;
mod end_pace;
mod era_notes;
mod eras;
mod executable;
mod failure;
mod frame;
mod handshake;
mod header_value;
mod http;
mod http_client;
mod in_flight;
mod inbound;
mod injection;
mod last_words;
mod lease;
mod lifecycle;
mod link;
mod listening;
mod message;
mod oversized;
mod overtime;
mod own_watch;
mod parcel;
mod patience;
mod pending;
mod pool;
mod post;
mod process;
mod questions;
mod redaction;
mod retry_after;
mod setting;
mod shares;
mod showing;
mod signs;
mod spec;
mod sse;
mod stdio;
pub mod supervisor;
mod tool_list;
mod upstream;
mod watches;

#[cfg(test)]
mod tests;

pub use credential::{
    Behalf, CallErrand, CredentialLack, CredentialSource, Entrusted, Errand, NotPresented, Presented, REJECTIONS_MAX,
    Rejection, Remedy,
};
pub use delivery::{
    Announcement, Answer, Ask, Bystander, Continuation, Counterpart, Delivery, LateSink, Offer, Performed, Question,
    Remark, RemarkSink, Reply,
};
pub use failure::{PerformFailure, UpstreamError};
pub use injection::is_argument_pointer;
pub use lease::{Lease, OwnerLease};
pub use lifecycle::UpstreamStatus;
pub use own_watch::OwnWatch;
pub use post::{Letter, NotPosted, Post, PostAddress, Receipt};
pub use retry_after::retry_after_ms;
pub use spec::{Limits, Transport, UpstreamId, UpstreamSpec};
pub use tool_list::{ListedTool, RejectedTool, ToolList};
pub use upstream::Upstream;
