//! The texts of a tool's identity, one type each: what a caller says (`PublicName`, `ExplicitNamespace`) and what is only
//! written for others to read (`QualifiedName`, `TraceName`).
//!
//! The written ones are composed of parts and cannot be parsed: no function here leads from one of them back to a name or a
//! namespace, because `crm.search` does not say whether it is one name or two.

use std::fmt;

use serde_json::Value;

/// A tool's name as callers say it. Never empty; compared by code point, never trimmed or normalised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicName(String);

/// The namespace that a tool was put into. Never empty; compared like a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExplicitNamespace(String);

/// `namespace.name`, or the name alone if there is no namespace: for dispatching and messages. Not an identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName(String);

/// The label of a trace. Not an identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceName(String);

/// A name with the namespace it was said with: what a call says, and where a tool is. The other texts are derived from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolAddress {
    /// The name.
    pub name: PublicName,
    /// The namespace, if one was said.
    pub namespace: Option<ExplicitNamespace>,
}

impl ToolAddress {
    /// The address in a call's payload. Only `name` and `namespace` are read; a value that is empty or not a text counts as
    /// absent.
    pub fn from_call(call: &Value) -> Option<Self> {
        let name = PublicName::read(call.get("name"))?;
        Some(Self { name, namespace: ExplicitNamespace::read(call.get("namespace")) })
    }

    /// Whether the namespace equals the name: the wire form of a loaded deferred tool that has no namespace.
    pub fn is_reserved(&self) -> bool {
        self.namespace.as_ref().is_some_and(|namespace| namespace.0 == self.name.0)
    }

    /// The name with its namespace, also for the reserved form.
    pub fn qualified_name(&self) -> QualifiedName {
        QualifiedName(match &self.namespace {
            Some(namespace) => format!("{namespace}.{}", self.name),
            None => self.name.0.clone(),
        })
    }

    /// The label in traces, in which the reserved form is only a name.
    pub fn trace_name(&self) -> TraceName {
        TraceName(if self.is_reserved() { self.name.0.clone() } else { self.qualified_name().0 })
    }
}

impl QualifiedName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TraceName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! said {
    ($name:ident) => {
        impl $name {
            /// The text, unless it is empty.
            pub fn new(text: impl Into<String>) -> Option<Self> {
                let text = text.into();
                (!text.is_empty()).then_some(Self(text))
            }

            /// The text of a member; `None` if it is missing, empty or not a text.
            pub fn read(member: Option<&Value>) -> Option<Self> {
                Self::new(member?.as_str()?)
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}

said!(PublicName);
said!(ExplicitNamespace);

macro_rules! display {
    ($($name:ident),+) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        })+
    };
}

display!(PublicName, ExplicitNamespace, QualifiedName, TraceName);
