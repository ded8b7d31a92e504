//! What a client asks for, as a door hands it in: a tool call, or an inquiry about anything else, and how to answer it.

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_contract::{OperationKeys, expectation::Aims};
use tokio_util::sync::CancellationToken;

use super::{ClientMessageSink, Requester};

/// Larger arguments are judged in `block_in_place`, because reading a program takes about a microsecond for every byte and other calls must
/// not wait for that. A door makes such a call on a runtime of several threads.
pub const JUDGED_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// How to answer a request, apart from what it asks.
#[derive(Debug, Default)]
pub struct RequestTerms {
    /// How long the caller will still wait, if it said so.
    pub caller_wait_ms: Option<u64>,
    /// W3C `traceparent`, if the caller sent one.
    pub trace_parent: Option<String>,
    /// The caller's other `_meta` members, for the upstream.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// How much of the server's log is wanted; for a legacy requester, the session decides.
    pub log_level: Option<String>,
    /// Where progress, log lines and, for a legacy requester, questions go. A full channel loses them.
    pub messages: Option<ClientMessageSink>,
    /// A modern requester's raw `inputResponses`.
    pub input_responses: Option<Box<RawValue>>,
    /// A modern requester's `requestState`, sealed by the gateway.
    pub request_state: Option<String>,
    /// Cancelled when the caller gives up.
    pub cancel: CancellationToken,
    /// How much detail the answer of a call has.
    pub detail: AnswerDetail,
    /// Whether a call is not made: it is answered with a preview of what it would do.
    pub dry_run: bool,
}

/// How much of what is known about a call goes into its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnswerDetail {
    /// What an agent acts on and a client uses.
    #[default]
    Brief,
    /// The whole refusal and the whole observation.
    Full,
}

/// A call as a door hands it in.
#[derive(Debug)]
pub struct CallRequest {
    /// Who calls.
    pub requester: Requester,
    /// The exposed name, as written.
    pub tool: String,
    /// The arguments, exactly as they arrived; empty if there were none.
    pub arguments: Bytes,
    /// What ties repairs of one intent together, if the caller said so.
    pub chain: Option<String>,
    /// What the caller says about which operation it is.
    pub keys: OperationKeys,
    /// What the caller says it is for.
    pub aims: Aims,
    /// The raw `task` of a legacy caller that wants a task.
    pub task: Option<Box<RawValue>>,
    /// How to answer the call.
    pub terms: RequestTerms,
}

/// A request that is not a call, as a door hands it in.
#[derive(Debug)]
pub struct Inquiry {
    /// Who asks.
    pub requester: Requester,
    /// What it is about.
    pub subject: InquirySubject,
    /// The members of `params` in order, without `_meta`, `inputResponses` and `requestState`. Names and URIs are exposed ones.
    pub params: Vec<(String, Box<RawValue>)>,
    /// How to answer the inquiry.
    pub terms: RequestTerms,
}

/// What an inquiry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InquirySubject {
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    ResourceTemplates,
    /// `resources/read`.
    Resource,
    /// `prompts/list`.
    Prompts,
    /// `prompts/get`.
    Prompt,
    /// `completion/complete`.
    Completion,
    /// `tasks/get`.
    Task,
    /// `tasks/update`.
    TaskUpdate,
    /// `tasks/cancel`.
    TaskCancel,
    /// `tasks/result`.
    TaskResult,
    /// `tasks/list`.
    Tasks,
}

impl InquirySubject {
    /// The subject that a method asks about.
    pub fn from_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|subject| subject.method() == method)
    }

    /// Its method.
    pub const fn method(self) -> &'static str {
        use servanda_mcp::fields::method;
        match self {
            Self::Resources => method::RESOURCES_LIST,
            Self::ResourceTemplates => method::RESOURCE_TEMPLATES_LIST,
            Self::Resource => method::RESOURCES_READ,
            Self::Prompts => method::PROMPTS_LIST,
            Self::Prompt => method::PROMPTS_GET,
            Self::Completion => method::COMPLETE,
            Self::Task => method::TASKS_GET,
            Self::TaskUpdate => method::TASKS_UPDATE,
            Self::TaskCancel => method::TASKS_CANCEL,
            Self::TaskResult => method::TASKS_RESULT,
            Self::Tasks => method::TASKS_LIST,
        }
    }

    const ALL: [Self; 11] = [
        Self::Resources,
        Self::ResourceTemplates,
        Self::Resource,
        Self::Prompts,
        Self::Prompt,
        Self::Completion,
        Self::Task,
        Self::TaskUpdate,
        Self::TaskCancel,
        Self::TaskResult,
        Self::Tasks,
    ];
}
