//! The lookup key: the identity by which tools are found, and its stored form.

use serde_json::{Value, json};

use super::{ExplicitNamespace, PublicName, ToolAddress};

/// Which tool is meant. Two tools are the same exactly if their keys are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupKey {
    /// A tool without a namespace. A dot in its name means nothing.
    Bare(PublicName),
    /// A deferred tool without a namespace, which is loaded when it is searched for.
    DeferredTopLevel(PublicName),
    /// A tool in a namespace.
    Namespaced {
        /// The namespace.
        namespace: ExplicitNamespace,
        /// The name in it.
        name: PublicName,
    },
}

impl LookupKey {
    /// The key that a call at this address asks for.
    pub fn of(address: &ToolAddress) -> Self {
        match &address.namespace {
            Some(_) if address.is_reserved() => Self::DeferredTopLevel(address.name.clone()),
            Some(namespace) => Self::Namespaced { namespace: namespace.clone(), name: address.name.clone() },
            None => Self::Bare(address.name.clone()),
        }
    }

    /// The key that a call's payload asks for; `None` if it has no name.
    pub fn of_call(call: &Value) -> Option<Self> {
        ToolAddress::from_call(call).map(|address| Self::of(&address))
    }

    /// The name in the key.
    pub fn name(&self) -> &PublicName {
        match self {
            Self::Bare(name) | Self::DeferredTopLevel(name) | Self::Namespaced { name, .. } => name,
        }
    }

    /// The stored form.
    pub fn encode(&self) -> Value {
        match self {
            Self::Bare(name) => json!({ "kind": "bare", "name": name.as_str() }),
            Self::DeferredTopLevel(name) => json!({ "kind": "deferred_top_level", "name": name.as_str() }),
            Self::Namespaced { namespace, name } => {
                json!({ "kind": "namespaced", "namespace": namespace.as_str(), "name": name.as_str() })
            }
        }
    }

    /// The key of a stored form; `None` if it is not one. Other members beside it do not matter.
    pub fn decode(stored: &Value) -> Option<Self> {
        let name = PublicName::read(stored.get("name"))?;
        match stored.get("kind")?.as_str()? {
            "bare" => Some(Self::Bare(name)),
            "deferred_top_level" => Some(Self::DeferredTopLevel(name)),
            "namespaced" => {
                let namespace = ExplicitNamespace::read(stored.get("namespace"))?;
                Some(Self::Namespaced { namespace, name })
            }
            _ => None,
        }
    }
}
