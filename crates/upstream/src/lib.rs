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
mod options;
mod dispatch;
mod eras;
mod failure;
mod http;
mod http_client;
mod lease;
mod webhook;
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

pub use connection::{ConnectionResourceWatch, UpstreamStatus};
pub use credential_source::{
    RequestUser, CredentialCall, CredentialLack, CredentialSource, CallRequirements, CredentialRequest, MissingCredential, PresentedCredentials, REJECTIONS_MAX,
    CredentialRejection, Remedy,
};
pub use credentials::is_argument_pointer;
pub use options::{
    Announcement, Answer, UpstreamQuestion, ServerMessageSink, Continuation, UpstreamRequester, RequestOptions, LateAnswerSender, UpstreamOffer, UpstreamOutcome, UpstreamInquiry,
    ServerMessage, ServerMessageSender, QuestionReply,
};
pub use failure::{PerformFailure, UpstreamError};
pub use lease::{DispatchLease, OwnerLease};
pub use webhook::{WebhookMessage, WebhookSendError, WebhookClient, WebhookAddress, WebhookResponse};
pub use retry_after::retry_after_ms;
pub use spec::{UpstreamLimits, Transport, UpstreamName, UpstreamSpec};
pub use tool_list::{UpstreamListedTool, RejectedTool, ToolList};
pub use upstream::Upstream;
