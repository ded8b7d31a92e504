//! The items that a provider sends: which kind of call each is or answers, and by which id.

use serde_json::Value;

use super::{
    CallId, HostedRequest,
    ids::{id_of_payload, raw_item},
};

/// The kinds of calls that have their own id.
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
    /// Of a tool that the provider itself calls, after asking.
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

    /// The word on the wire for its output.
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

/// The id of the call that an approval item is about.
pub fn id_of_approval_item(item: &Value) -> Option<CallId> {
    match HostedRequest::of_item(item) {
        Some(request) => request.request_id,
        None => id_of_payload(raw_item(item)).and_then(CallId::new),
    }
}

/// The kind and the id of a call; `None` if it is not a call, and no id if it has no valid one.
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
