//! Performs a fenced call on an MCP server over stdio or Streamable HTTP, in both eras of the protocol.
//!
//! An [`Upstream`] is one configured server. It connects when first needed, finds out which era the server speaks, keeps the connection,
//! restarts a server that died, and moves raw JSON in both directions. This crate does not decide whether a call may be made, whether an
//! answer keeps its contract, or whether anything is sent again. It reports what happened, and whether it is provable that nothing did.

mod connection;
mod conversation;
mod credential_source;
mod credentials;
mod dispatch;
mod eras;
mod failure;
mod http;
mod http_client;
mod lease;
mod options;
mod request;
mod retry_after;
mod shared;
mod shares;
mod spec;
mod stdio;
pub mod supervisor;
mod tool_list;
mod upstream;
mod webhook;

#[cfg(test)]
mod tests;

pub use connection::{ConnectionResourceWatch, UpstreamStatus};
pub use credential_source::{
    CallRequirements, CredentialCall, CredentialLack, CredentialRejection, CredentialRequest, CredentialSource,
    MissingCredential, PresentedCredentials, REJECTIONS_MAX, Remedy, RequestUser,
};
pub use credentials::is_argument_pointer;
pub use failure::{PerformFailure, UpstreamError};
pub use http_client::InProcessListener;
pub use lease::{DispatchLease, OwnerLease};
pub use options::{
    Announcement, Answer, Continuation, LateAnswerSender, QuestionReply, RequestOptions, ServerMessage,
    ServerMessageSender, ServerMessageSink, UpstreamInquiry, UpstreamOffer, UpstreamOutcome, UpstreamQuestion,
    UpstreamRequester,
};
pub use retry_after::retry_after_ms;
pub use spec::{Transport, UpstreamLimits, UpstreamName, UpstreamSpec};
pub use tool_list::{RejectedTool, ToolList, UpstreamListedTool};
pub use upstream::Upstream;
pub use webhook::{WebhookAddress, WebhookClient, WebhookMessage, WebhookResponse, WebhookSendError};
