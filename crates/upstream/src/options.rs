//! The options of one request, the messages a server sends meanwhile, and how the request ended.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_gates::Fenced;
use servanda_mcp::{ClientCapabilities, Era, RpcError};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{CallRequirements, DispatchLease, PerformFailure, RequestUser};

/// Where server messages go. A full channel drops progress and log lines, and declines questions.
pub type ServerMessageSender = mpsc::Sender<ServerMessage>;

/// Receives server messages that belong to no single request. It gets them unchanged and decides how much of them a client gets.
pub trait ServerMessageSink: fmt::Debug + Send + Sync {
    /// Takes a server message. Returns false if it was not taken; a question is then declined.
    fn receive(&self, server_message: ServerMessage) -> bool;

    /// Whether the listener is gone.
    fn is_gone(&self) -> bool;
}

impl ServerMessageSink for ServerMessageSender {
    fn receive(&self, server_message: ServerMessage) -> bool {
        self.try_send(server_message).is_ok()
    }

    fn is_gone(&self) -> bool {
        self.is_closed()
    }
}

/// For whom a request is made. Two requesters are equal if they are of the same user, whatever software and session they use.
#[derive(Debug, Clone)]
pub struct UpstreamRequester {
    /// The client's era; it is used if the server has it. The gateway's own requests are modern if the server allows it.
    pub era: Era,
    /// What the client can do for the server.
    pub capabilities: ClientCapabilities,
    /// Requests of the same affinity share a connection to a legacy server. If the client can be asked something, requests of different
    /// affinities never share one: a legacy server does not say for whom its own requests are.
    pub affinity: Arc<str>,
    /// The user, and who acts for them; none is the gateway itself.
    pub on_behalf_of: Option<RequestUser>,
}

/// Something a server says while a request is running, or between requests.
#[derive(Debug)]
pub enum ServerMessage {
    /// How far the request has come: the raw `params` without the gateway's `progressToken`.
    Progress(Box<RawValue>),
    /// A line of the server's log: the raw `params`.
    LogMessage(Box<RawValue>),
    /// A question to the client.
    Ask(UpstreamQuestion),
    /// Another notification that concerns the client.
    Notification {
        /// Its method.
        method: String,
        /// The raw `params`.
        params: Option<Box<RawValue>>,
    },
}

/// A server's request to the client. If it is dropped unanswered, it is declined.
#[derive(Debug)]
pub struct UpstreamQuestion {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// As the server wrote them.
    pub params: Option<Box<RawValue>>,
    /// Where the client's answer goes.
    pub reply: oneshot::Sender<QuestionReply>,
}

/// A client's answer to a server: the raw result, or an error.
pub type QuestionReply = Result<Box<RawValue>, RpcError>;

/// What a modern client adds when it repeats a request after `input_required`.
#[derive(Debug, Clone, Default)]
pub struct Continuation {
    /// The raw `inputResponses`.
    pub input_responses: Option<Box<RawValue>>,
    /// The server's own state, as it wrote it.
    pub request_state: Option<String>,
}

/// Receives the answer that comes after the deadline, or the failure if none came.
pub type LateAnswerSender = oneshot::Sender<Result<Answer, PerformFailure>>;

/// The options of one request.
#[derive(Debug)]
pub struct RequestOptions {
    /// When waiting ends, connecting included. The time stops while the client is being asked something.
    pub deadline: Instant,
    /// Cancelled when the caller does not want the answer any more.
    pub cancel: CancellationToken,
    /// For whom the request is made.
    pub requester: UpstreamRequester,
    /// Where server messages go. Without it they go where the affinity's messages outside requests go. If there is no such place either,
    /// questions are declined.
    pub server_messages: Option<ServerMessageSender>,
    /// Whether the server is asked for progress.
    pub wants_progress: bool,
    /// How much of a modern server's log is wanted.
    pub log_level: Option<String>,
    /// W3C trace context for the upstream.
    pub trace_parent: Option<String>,
    /// Members of the caller's `_meta` that only the server reads, in order.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// The client's reply to what a modern server asked for in the round before.
    pub continuation: Continuation,
    /// Headers that repeat annotated arguments, without their prefix; for modern HTTP servers.
    pub param_headers: Vec<(String, String)>,
    /// A header that the contract names, with our idempotency key. A connection that carries no headers does not take the request.
    pub key_header: Option<(String, String)>,
    /// The raw `task` of a legacy request that asks for a task.
    pub task: Option<Box<RawValue>>,
    /// What a call needs, when [`Upstream::is_shown_credentials`](crate::Upstream::is_shown_credentials).
    pub requirements: Option<Arc<CallRequirements>>,
    /// The lease under which its bytes may be sent; none if the request is no effect.
    pub lease: Option<DispatchLease>,
    /// Receives a late answer to a call that may have changed something. Dropped when no late answer is awaited.
    pub late: Option<LateAnswerSender>,
}

/// A request other than a tool call. It changes nothing that a contract covers.
#[derive(Debug, Clone)]
pub struct UpstreamInquiry {
    /// Its method.
    pub method: &'static str,
    /// The prompt, the URI or the task it is about, for the modern header.
    pub name: Option<String>,
    /// The raw members of `params` without `_meta`, in order.
    pub params: Vec<(String, Box<RawValue>)>,
}

/// Something a server says outside any request.
#[derive(Debug, Clone)]
pub enum Announcement {
    /// Its tools may have changed.
    ToolsChanged,
    /// Its prompts may have changed.
    PromptsChanged,
    /// Its resources may have changed.
    ResourcesChanged,
    /// A watched resource changed.
    ResourceUpdated {
        /// Its URI at the server.
        uri: String,
        /// The raw `params`.
        params: Arc<RawValue>,
    },
    /// A task's state changed.
    TaskChanged {
        /// Its id at the server.
        task_id: String,
        /// The raw `params`.
        params: Arc<RawValue>,
    },
}

/// What a connected server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamOffer {
    /// The era of the protocol it speaks.
    pub era: Era,
    /// Its capabilities, as it wrote them.
    pub capabilities: Arc<str>,
}

/// How a fenced call ended.
#[derive(Debug)]
pub struct UpstreamOutcome {
    /// The call, handed back.
    pub fenced: Fenced,
    /// Whether a byte of the request was sent. If not, it was not executed. If so, it may still be provable that it was not (a session the
    /// server had forgotten), so ask [`PerformFailure::provably_not_executed`].
    pub sent: bool,
    /// How long it took, connecting included.
    pub took_us: u64,
    /// The answer, or why there is none.
    pub outcome: Result<Answer, PerformFailure>,
}

/// An upstream's answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The JSON-RPC `result`, exactly the bytes the upstream wrote. It is JSON; nothing else about it is checked.
    pub result: Bytes,
    /// The era it was given in.
    pub era: Era,
}

impl UpstreamRequester {
    /// The gateway itself. There is no client behind it that could be asked.
    pub fn gateway() -> Self {
        // Made once, because every call compares its requester with the gateway.
        static NO_AFFINITY: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
        let affinity = Arc::clone(&NO_AFFINITY);
        Self { era: Era::Modern, capabilities: ClientCapabilities::none(), affinity, on_behalf_of: None }
    }

    /// Whether it stands for all clients and not for a single one.
    pub(crate) fn is_shared(&self) -> bool {
        *self == Self { era: self.era, ..Self::gateway() }
    }

    /// Tenant and principal.
    pub(crate) fn user(&self) -> Option<(&str, &str)> {
        self.on_behalf_of.as_ref().map(RequestUser::user)
    }
}

impl PartialEq for UpstreamRequester {
    fn eq(&self, other: &Self) -> bool {
        self.era == other.era
            && self.capabilities == other.capabilities
            && self.affinity == other.affinity
            && self.user() == other.user()
    }
}

impl Eq for UpstreamRequester {}

impl Hash for UpstreamRequester {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.era.hash(state);
        self.capabilities.hash(state);
        self.affinity.hash(state);
        self.user().hash(state);
    }
}

impl RequestOptions {
    /// The options of a request that the gateway makes on its own account.
    pub fn for_gateway(deadline: Instant) -> Self {
        Self {
            deadline,
            cancel: CancellationToken::new(),
            requester: UpstreamRequester::gateway(),
            server_messages: None,
            wants_progress: false,
            log_level: None,
            trace_parent: None,
            meta: Vec::new(),
            continuation: Continuation::default(),
            param_headers: Vec::new(),
            key_header: None,
            task: None,
            requirements: None,
            lease: None,
            late: None,
        }
    }
}
