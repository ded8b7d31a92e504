//! What a door may ask of the engine. Doors are written against this, so that every door gives the same answers.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use serde_json::value::RawValue;
use servanda_authority::Authenticated;
use servanda_catalog::{Listing, Viewer};
use servanda_contract::{Caller, OperationKeys, Refusal, expectation::Aims};
use servanda_effects::Notebook;
use servanda_mcp::{ClientCapabilities, Era, RpcError};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    answer::Rest,
    remark::{Remark, RemarkSink},
    watch::Watch,
};

/// Larger arguments are judged in `block_in_place`, because reading a program takes about a microsecond for every byte and other calls must
/// not wait for that. A door makes such a call on a runtime of several threads.
pub const JUDGED_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// The engine as doors see it.
pub trait Gateway: Send + Sync + 'static {
    /// The tools on offer now to that guest, in their one order: those that some call of theirs could be allowed for. Guests of
    /// the same capabilities and rights see the same list.
    fn listing(&self, guest: &Guest) -> impl Future<Output = Arc<Listing>> + Send;

    /// The same as far as it is known: nobody is asked, and nothing is waited for.
    fn known_listing(&self, guest: &Guest) -> Arc<Listing>;

    /// What [`Gateway::known_listing`] chooses from: the tools that are known for guests of such capabilities, also those that this one
    /// is not shown. The very same list until it changes, so that what is read from it need be read once.
    fn whole_listing(&self, guest: &Guest) -> Arc<Listing>;

    /// Bumped whenever [`Gateway::listing`] may return another list.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Takes a call through to its answer. A door never drops it before its end: a dispatched call is read to its end and
    /// recorded, whether or not the caller is still there. A caller that goes away cancels the token.
    fn call(&self, request: CallRequest) -> impl Future<Output = CallAnswer> + Send;

    /// Answers everything else that upstreams answer: resources, prompts, completions, tasks.
    fn inquire(&self, inquiry: Inquiry) -> impl Future<Output = Result<InquiryAnswer, RpcError>> + Send;

    /// What changes, for whoever listens. A receiver that lags should take everything for changed.
    fn news(&self) -> broadcast::Receiver<News>;

    /// Hears of a resource's changes through [`Gateway::news`] until the watch is dropped. `uri` is an exposed one.
    fn watch(&self, guest: &Guest, uri: &str) -> impl Future<Output = Result<Watch, RpcError>> + Send;

    /// Those of some tasks that the guest may ask about: whoever may not ask is not told unasked either.
    fn known_tasks(&self, guest: &Guest, task_ids: Vec<String>) -> impl Future<Output = Vec<String>> + Send;

    /// Legacy: how much of the servers' logs a session wants.
    fn set_log_level(&self, guest: &Guest, level: &str) -> impl Future<Output = Result<(), RpcError>> + Send;

    /// Legacy: the guest's roots changed.
    fn roots_changed(&self, guest: &Guest);

    /// Begins to hear what servers say to that guest outside any request; for guests of a session, who have somewhere to
    /// be told. Ends with [`Gateway::leave`].
    fn attend(&self, affinity: &str) -> mpsc::Receiver<Remark>;

    /// A session is over: everything kept for it is let go.
    fn leave(&self, affinity: &str);

    /// What outlives the process.
    fn notebook(&self) -> Arc<dyn Notebook>;
}

/// Who asks, and what they can be asked in turn.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Who.
    pub caller: Caller,
    /// What their credential covers: that of this request, whatever the session began with.
    pub authority: Arc<Authenticated>,
    /// The side of the protocol they speak: a modern guest is asked by the answer, a legacy one on the way.
    pub era: Era,
    /// What they can do for servers.
    pub capabilities: ClientCapabilities,
    /// What holds their requests together: the session, the connection, or the principal where there is neither.
    pub affinity: Arc<str>,
}

/// How a request is to be answered, apart from what it asks.
#[derive(Debug, Default)]
pub struct Terms {
    /// How long the caller will still wait, if it said so.
    pub caller_wait_ms: Option<u64>,
    /// W3C `traceparent`, if the caller sent one.
    pub trace_parent: Option<String>,
    /// The caller's other `_meta` members, for the upstream.
    pub meta: Vec<(String, Box<RawValue>)>,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// How much of the server's log is wanted; of a legacy guest the session decides.
    pub log_level: Option<String>,
    /// Where progress, log lines and, for a legacy guest, questions go. A full channel loses them.
    pub remarks: Option<RemarkSink>,
    /// A modern guest's raw `inputResponses`.
    pub input_responses: Option<Box<RawValue>>,
    /// A modern guest's `requestState`: ours, sealed.
    pub request_state: Option<String>,
    /// Cancelled when the caller gives up.
    pub cancel: CancellationToken,
    /// How much a call is answered with.
    pub detail: Detail,
}

/// How much of what is known about a call its answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
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
    pub guest: Guest,
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
    /// How it is to be answered.
    pub terms: Terms,
}

/// The answer every call gets.
#[derive(Debug)]
pub enum CallAnswer {
    /// A tool result: of the upstream, or a refusal the model can read.
    Result(ToolResult),
    /// No such tool: the protocol has an error of its own for that.
    UnknownTool(Box<Refusal>),
    /// Only for modern guests: the members of an `input_required` result, as a JSON object without `resultType`.
    InputRequired(String),
    /// Only for guests who take tasks: the members of the era's task result, as a JSON object without `resultType`.
    Task(String),
    /// An error of the protocol, which no tool result can say. What is known about the outside world is in the record.
    Failed(RpcError),
}

/// The members of an MCP tool result: content, structured content, error flag, and in `_meta` what a client uses.
#[derive(Debug)]
pub struct ToolResult {
    /// A JSON object without `resultType`, which a door of the modern era adds.
    pub json: String,
    /// Whether it reports a failure.
    pub is_error: bool,
    /// Every scope the call needs, where more scopes are all that is missing.
    pub scopes_needed: Vec<String>,
    /// What else is known about the call, for callers that ask for it.
    pub(crate) rest: Option<Box<Rest>>,
}

impl ToolResult {
    /// A result of which nothing more is known than it says.
    pub fn plain(json: String, is_error: bool) -> Self {
        Self { json, is_error, scopes_needed: Vec::new(), rest: None }
    }
}

/// A request that is not a call, as a door hands it in.
#[derive(Debug)]
pub struct Inquiry {
    /// Who asks.
    pub guest: Guest,
    /// What.
    pub subject: Subject,
    /// The members of `params` in order, without `_meta`, `inputResponses` and `requestState`. Names and URIs are exposed ones.
    pub params: Vec<(String, Box<RawValue>)>,
    /// How it is to be answered.
    pub terms: Terms,
}

/// What an inquiry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
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

/// The answer of an inquiry, as a JSON object without `resultType`.
#[derive(Debug)]
pub enum InquiryAnswer {
    /// The result.
    Complete(String),
    /// Only for modern guests: the members of an `input_required` result.
    InputRequired(String),
}

/// What changed. URIs are exposed ones.
#[derive(Debug, Clone)]
pub enum News {
    /// The tools, for some guests at least.
    Tools,
    /// The prompts.
    Prompts,
    /// The resources.
    Resources,
    /// A resource.
    Resource {
        /// Which.
        uri: Arc<str>,
        /// The raw `params` of the notification, with that URI.
        params: Arc<RawValue>,
    },
    /// A task.
    Task {
        /// Whose it is.
        owner: Arc<Caller>,
        /// The id we gave it.
        task_id: Arc<str>,
        /// The raw `params` of the notification, with that id.
        params: Arc<RawValue>,
    },
    /// What is news to some tenants only, because the upstream is theirs.
    Within {
        /// Who may know.
        tenants: Arc<BTreeSet<String>>,
        /// What changed.
        news: Arc<News>,
    },
}

impl News {
    /// What that caller may know of it.
    pub fn told_to(&self, caller: &Caller) -> Option<&Self> {
        match self {
            Self::Within { tenants, news } => tenants.contains(&caller.tenant).then_some(&**news),
            everybodys => Some(everybodys),
        }
    }

    /// The same, for these tenants; for everybody if none are named.
    pub(crate) fn within(self, tenants: Option<Arc<BTreeSet<String>>>) -> Self {
        match tenants {
            Some(tenants) => Self::Within { tenants, news: Arc::new(self) },
            None => self,
        }
    }
}

impl Guest {
    /// As far as what they are offered depends on them.
    pub(crate) fn viewer(&self) -> Viewer<'_> {
        Viewer { era: self.era, capabilities: &self.capabilities }
    }

    /// The local principal, who cannot be asked anything: for one-off commands.
    pub fn local() -> Self {
        Self {
            caller: Caller::local(),
            authority: local_authority(),
            era: Era::Modern,
            capabilities: ClientCapabilities::none(),
            affinity: Arc::from("local"),
        }
    }
}

/// The rights of local mode, made once.
pub fn local_authority() -> Arc<Authenticated> {
    static LOCAL: LazyLock<Arc<Authenticated>> = LazyLock::new(|| Arc::new(Authenticated::local()));
    Arc::clone(&LOCAL)
}

impl Subject {
    /// The method that asks for it.
    pub fn of(method: &str) -> Option<Self> {
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
