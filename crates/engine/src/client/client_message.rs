//! What a client is told while its request runs, and between its requests.
//!
//! A server's own words are a [`servanda_upstream::ServerMessage`]. A client's sink does not take those: a question has to pass the rules
//! of questions first, and the rest has to be translated into the client's names and ids.

use serde_json::value::RawValue;
use servanda_upstream::QuestionReply;
use tokio::sync::{mpsc, oneshot};

use crate::questions::ClientQuestion;

/// Where a client's messages go. A full channel drops progress and log lines; a question that does not fit is declined.
pub type ClientMessageSink = mpsc::Sender<ClientMessage>;

/// Something a client is told.
#[derive(Debug)]
pub enum ClientMessage {
    /// How far its request has come: the raw `params` without the `progressToken`.
    Progress(Box<RawValue>),
    /// A line of a server's log: the raw `params`.
    LogMessage(Box<RawValue>),
    /// A question that the client is to answer.
    Ask(PendingQuestion),
    /// Another notification.
    Notification {
        /// Its method.
        method: String,
        /// The raw `params`.
        params: Option<Box<RawValue>>,
    },
}

/// A server's question to a client. Dropped unanswered, it is declined.
#[derive(Debug)]
pub struct PendingQuestion {
    /// The question.
    pub question: ClientQuestion,
    /// Where the client's answer goes.
    pub reply: oneshot::Sender<QuestionReply>,
}
