//! What the layers refuse, each with a stable code. The fault decides who is told: the operator, whose configuration cannot
//! work, or the agent, whose call cannot be accepted.

use super::{PublicName, QualifiedName};

/// A configuration or a call that the rules refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A namespace equals the name inside it: on the wire that is a deferred tool without a namespace.
    #[error("`{0}` has a namespace that equals its name; that form is kept for deferred tools without a namespace")]
    ReservedSyntheticNamespace(QualifiedName),
    /// A namespace without a name.
    #[error("a namespace needs a name that is not blank")]
    EmptyNamespaceName,
    /// A namespace without a description.
    #[error("a namespace needs a description that is not blank")]
    EmptyNamespaceDescription,
    /// Something without an identity is in a namespace.
    #[error("only function tools can be in a namespace")]
    NotAFunctionTool,
    /// Two deferred tools without a namespace have one name.
    #[error("two deferred tools without a namespace are called `{0}`")]
    DuplicateDeferredTopLevel(PublicName),
    /// Two tools read the same when they are written with their namespace.
    #[error("two tools would both be written `{0}`")]
    QualifiedNameCollision(QualifiedName),
    /// Several things without a namespace have one name.
    #[error("{conflict} are called `{name}`")]
    NameConflict {
        /// The kind of conflict.
        conflict: NameConflict,
        /// The name.
        name: PublicName,
    },
    /// Several servers offer tools of one name, and names are not prefixed.
    #[error("several servers offer {}; prefix tool names with their server", quoted(.names))]
    DuplicateServerToolNames {
        /// The names, in order.
        names: Vec<String>,
    },
    /// No name was given, and not every provider accepts the generated one.
    #[error("the name `{0}` that was derived for a tool is not 1 to 64 of A-Z a-z 0-9 _ -; give it a name")]
    InvalidGeneratedName(String),
    /// No tool has the called name.
    #[error("there is no tool `{0}`")]
    ToolNotFound(String),
    /// A call id that already belongs to another call.
    #[error("this call id was used for a different call")]
    CallIdReused,
    /// A call without an id cannot be decided about.
    #[error("a decision about a call needs the id of the call")]
    ApprovalRequiresCallId,
    /// A decision does not say which call it is about.
    #[error("a decision needs to say which tool is called, and with what")]
    ApprovalRequiresCanonicalInvocation,
    /// A hosted request without an id cannot be decided about.
    #[error("a decision about a hosted tool needs the id of the request")]
    HostedRequiresRequestId,
    /// A lasting decision about a hosted tool must say which.
    #[error("a lasting decision about a hosted tool needs its server and its name")]
    HostedStickyRequiresServerAndTool,
    /// The limit of remembered calls or decisions is reached.
    #[error("no more than {limit} {what} are remembered")]
    Full {
        /// What is remembered.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// What shares a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameConflict {
    /// Function tools.
    Tools,
    /// Handoffs.
    Handoffs,
    /// Both.
    ToolsAndHandoffs,
    /// Two tools whose names were derived from different agents.
    DerivedTools,
    /// Two handoffs whose names were derived from different agents.
    DerivedHandoffs,
    /// A tool and a handoff whose names were derived from different agents.
    DerivedToolAndHandoff,
}

/// Who is at fault for a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The configuration cannot work; no call will change that.
    Configuration,
    /// This call, or what its sender did before.
    Call,
}

impl IdentityError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::ReservedSyntheticNamespace(_) => "reserved_synthetic_namespace",
            Self::EmptyNamespaceName => "empty_namespace_name",
            Self::EmptyNamespaceDescription => "empty_namespace_description",
            Self::NotAFunctionTool => "not_a_function_tool",
            Self::DuplicateDeferredTopLevel(_) => "duplicate_deferred_top_level",
            Self::QualifiedNameCollision(_) => "qualified_name_collision",
            Self::NameConflict { conflict, .. } => conflict.code(),
            Self::DuplicateServerToolNames { .. } => "duplicate_mcp_tool_names",
            Self::InvalidGeneratedName(_) => "invalid_fallback_name",
            Self::ToolNotFound(_) => "tool_not_found",
            Self::CallIdReused => "call_id_reused",
            Self::ApprovalRequiresCallId => "approval_requires_call_id",
            Self::ApprovalRequiresCanonicalInvocation => "approval_requires_canonical_invocation",
            Self::HostedRequiresRequestId => "hosted_requires_request_id",
            Self::HostedStickyRequiresServerAndTool => "hosted_sticky_requires_server_and_tool",
            Self::Full { .. } => "memory_full",
        }
    }

    /// Who is at fault.
    pub const fn fault(&self) -> Fault {
        match self {
            Self::ToolNotFound(_)
            | Self::CallIdReused
            | Self::ApprovalRequiresCallId
            | Self::ApprovalRequiresCanonicalInvocation
            | Self::Full { .. } => Fault::Call,
            _ => Fault::Configuration,
        }
    }

    /// The name that it is about, if any.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::ReservedSyntheticNamespace(name) | Self::QualifiedNameCollision(name) => Some(name.as_str()),
            Self::DuplicateDeferredTopLevel(name) | Self::NameConflict { name, .. } => Some(name.as_str()),
            Self::ToolNotFound(name) => Some(name),
            _ => None,
        }
    }
}

impl NameConflict {
    const fn code(self) -> &'static str {
        match self {
            Self::Tools => "duplicate_function_tools",
            Self::Handoffs => "duplicate_handoffs",
            Self::ToolsAndHandoffs => "function_handoff_conflict",
            Self::DerivedTools => "derived_agent_tool_name_conflict",
            Self::DerivedHandoffs => "derived_handoff_name_conflict",
            Self::DerivedToolAndHandoff => "derived_routing_name_conflict",
        }
    }
}

impl std::fmt::Display for NameConflict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Tools => "several tools",
            Self::Handoffs => "several handoffs",
            Self::ToolsAndHandoffs => "a tool and a handoff",
            Self::DerivedTools => "two tools named after different agents",
            Self::DerivedHandoffs => "two handoffs named after different agents",
            Self::DerivedToolAndHandoff => "a tool and a handoff named after different agents",
        })
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
