//! Finding the id of a call in what a provider sent. An id that is no text is no id: nothing is ever turned into one.

use serde_json::Value;

use super::HostedRequest;

/// The id of one call. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(String);

impl CallId {
    /// The text, unless it is empty.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then_some(Self(text))
    }

    /// The text of a member, unless it is missing, empty or no text.
    pub fn read(member: Option<&Value>) -> Option<Self> {
        Self::new(member?.as_str()?)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The kinds of calls that have an id of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvocationKind {
    /// Of a function tool.
    Function,
    /// Of a tool that takes free text.
    Custom,
    /// Of a shell.
    Shell,
    /// Of a shell on the client's machine.
    LocalShell,
    /// Of a tool that patches files.
    ApplyPatch,
    /// Of a screen.
    Computer,
    /// Of a tool that the provider calls itself, after it asked.
    HostedRequest,
}

impl InvocationKind {
    const ALL: [Self; 7] = [
        Self::Function,
        Self::Custom,
        Self::Shell,
        Self::LocalShell,
        Self::ApplyPatch,
        Self::Computer,
        Self::HostedRequest,
    ];

    /// The word on the wire for the call.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
            Self::Shell => "shell_call",
            Self::LocalShell => "local_shell_call",
            Self::ApplyPatch => "apply_patch_call",
            Self::Computer => "computer_call",
            Self::HostedRequest => "mcp_approval_request",
        }
    }

    /// The word on the wire for what answers it.
    const fn output_word(self) -> &'static str {
        match self {
            Self::Function => "function_call_output",
            Self::Custom => "custom_tool_call_output",
            Self::Shell => "shell_call_output",
            Self::LocalShell => "local_shell_call_output",
            Self::ApplyPatch => "apply_patch_call_output",
            Self::Computer => "computer_call_output",
            Self::HostedRequest => "mcp_approval_response",
        }
    }
}

/// The id in a payload: `call_id`, or `id` where that says nothing. May be empty.
///
/// A `call_id` that says something else than a text says that it is no text: `id` is not asked then.
pub fn id_of_payload(payload: &Value) -> Option<&str> {
    let said = payload.get("call_id").filter(|id| says_something(id));
    said.or_else(|| payload.get("id"))?.as_str()
}

/// The id of the call that an approval item is about.
pub fn id_of_approval_item(item: &Value) -> Option<CallId> {
    match HostedRequest::of_item(item) {
        Some(request) => request.request_id,
        None => id_of_payload(raw_item(item)).and_then(CallId::new),
    }
}

/// The kind and the id of a call; nothing for what is no call, no id where it has none that is valid.
pub fn invocation_of(item: &Value) -> Option<(InvocationKind, Option<CallId>)> {
    if item.get("type").is_some_and(|kind| kind == "hosted_tool_call") {
        // The item itself, not one inside it: a wrapped item is not an invocation.
        return HostedRequest::read(item).map(|request| (InvocationKind::HostedRequest, request.request_id));
    }
    let word = item.get("type")?.as_str()?;
    let kind = InvocationKind::ALL.into_iter().find(|kind| kind.word() == word)?;
    let member = if kind == InvocationKind::HostedRequest { "id" } else { "call_id" };
    Some((kind, CallId::read(item.get(member))))
}

/// The kind and the id of the call that an output answers.
pub fn output_of(item: &Value) -> Option<(InvocationKind, CallId)> {
    let word = item.get("type")?.as_str()?;
    let kind = InvocationKind::ALL.into_iter().find(|kind| kind.output_word() == word)?;
    let member = if kind == InvocationKind::HostedRequest { "approval_request_id" } else { "call_id" };
    Some((kind, CallId::read(item.get(member))?))
}

/// What an item wraps, or the item itself.
pub(super) fn raw_item(item: &Value) -> &Value {
    item.get("raw_item").filter(|raw| !raw.is_null()).unwrap_or(item)
}

/// Null, the empty text, zero, false and what has no members say nothing.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
