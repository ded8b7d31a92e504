//! Performs a fenced call on an MCP server over stdio or Streamable HTTP, in both eras of the protocol.
//!
//! An [`Upstream`] is one configured server: it connects when first needed, finds out which era the server speaks, keeps
//! the connection, restarts what died, and moves raw JSON in both directions. Whether a call may be made, whether an answer
//! keeps its contract and whether anything is sent again are decided elsewhere: this crate says what happened, and whether
//! it is provable that nothing did.

mod connection;
mod conversation;
mod credential_source;
mod credentials;
mod delivery;
mod dispatch;
mod eras;
mod failure;
mod http;
mod http_client;
mod lease;
mod post;
mod request;
mod retry_after;
mod shared;
mod shares;
mod spec;
mod stdio;
pub mod supervisor;
mod tool_list;
mod upstream;

#[cfg(test)]
mod tests;

pub use connection::{OwnWatch, UpstreamStatus};
pub use credential_source::{
    Behalf, CallErrand, CredentialLack, CredentialSource, Entrusted, Errand, NotPresented, Presented, REJECTIONS_MAX,
    Rejection, Remedy,
};
pub use credentials::is_argument_pointer;
pub use delivery::{
    Announcement, Answer, Ask, Bystander, Continuation, Counterpart, Delivery, LateSink, Offer, Performed, Question,
    Remark, RemarkSink, Reply,
};
pub use failure::{PerformFailure, UpstreamError};
pub use http_client::InProcessListener;
pub use lease::{Lease, OwnerLease};
pub use post::{Letter, NotPosted, Post, PostAddress, Receipt};
pub use retry_after::retry_after_ms;
pub use spec::{Limits, Transport, UpstreamId, UpstreamSpec};
pub use tool_list::{ListedTool, RejectedTool, ToolList};
pub use upstream::Upstream;
