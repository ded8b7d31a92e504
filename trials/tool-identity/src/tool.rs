//! The parts of a tool's and a handoff's definition that decide its identity.

use super::{ExplicitNamespace, LookupKey, PublicName, QualifiedName, ToolAddress, TraceName};

/// Something that can be called, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool<T> {
    /// Its identity.
    pub identity: ToolIdentity,
    /// What it leads to.
    pub target: T,
}

/// An explicit route that comes before the lookup of tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff<H> {
    /// The name that selects it.
    pub name: PublicName,
    /// The source of the name.
    pub source: NameSource,
    /// What it leads to.
    pub target: H,
}

/// What a tool's identity is derived from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolIdentity {
    /// What kind of tool it is.
    pub kind: ToolKind,
    /// Its name.
    pub name: Option<PublicName>,
    /// Its namespace.
    pub namespace: Option<ExplicitNamespace>,
    /// When it is loaded.
    pub loading: Loading,
    /// The label in lists of tools, instead of its name.
    pub label: Option<String>,
    /// The source of the name.
    pub source: NameSource,
}

/// What kind of tool it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// One that is called by name.
    Function,
    /// Any other; it has no identity here.
    Other,
}

/// When a tool is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// From the beginning.
    Eager,
    /// When it is searched for.
    Deferred,
}

/// The source of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameSource {
    /// A person chose it.
    Chosen,
    /// It was derived from the name of an agent.
    Agent(String),
}

impl ToolIdentity {
    /// A function tool without a namespace.
    pub fn function(name: PublicName) -> Self {
        Self {
            kind: ToolKind::Function,
            name: Some(name),
            namespace: None,
            loading: Loading::Eager,
            label: None,
            source: NameSource::Chosen,
        }
    }

    /// The name by which it is called; only function tools are.
    pub fn public_name(&self) -> Option<&PublicName> {
        self.name.as_ref().filter(|_| self.kind == ToolKind::Function)
    }

    /// Whether it is deferred and has no namespace.
    pub fn is_deferred_top_level(&self) -> bool {
        self.public_name().is_some() && self.loading == Loading::Deferred && self.namespace.is_none()
    }

    /// Whether it is loaded from the beginning and has no namespace.
    pub fn is_eager_top_level(&self) -> bool {
        self.public_name().is_some() && self.loading == Loading::Eager && self.namespace.is_none()
    }

    /// Its address.
    pub fn address(&self) -> Option<ToolAddress> {
        self.public_name().map(|name| ToolAddress { name: name.clone(), namespace: self.namespace.clone() })
    }

    /// Its one lookup key, or `None`.
    pub fn lookup_key(&self) -> Option<LookupKey> {
        let address = self.address()?;
        Some(if self.is_deferred_top_level() {
            LookupKey::DeferredTopLevel(address.name)
        } else {
            LookupKey::of(&address)
        })
    }

    /// The name that dispatching writes.
    pub fn qualified_name(&self) -> Option<QualifiedName> {
        self.address().map(|address| address.qualified_name())
    }

    /// The label in traces.
    pub fn trace_name(&self) -> Option<TraceName> {
        self.address().map(|address| address.trace_name())
    }

    /// The label in lists of tools, of any kind: its own if it has one, else its name, never its namespace.
    pub fn listing_label(&self) -> Option<&str> {
        let own = self.label.as_deref().filter(|label| !label.is_empty());
        own.or(self.name.as_ref().map(PublicName::as_str))
    }
}
