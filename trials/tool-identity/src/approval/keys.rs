//! The texts that decisions are filed under.

use std::fmt;

use crate::{ExplicitNamespace, LookupKey, PublicName, Tool, ToolAddress};

/// A text that decisions are filed under. Different tools can have the same text, so finding a decision by it is not yet
/// permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalKey(String);

/// Evidence that a deferred tool may also be approved, call by call, under its bare name: no other tool has that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BareAlias(());

/// The texts of one tool: the canonical one, and an alias before it if that is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalKeys {
    alias: Option<ApprovalKey>,
    canonical: ApprovalKey,
}

impl BareAlias {
    /// The alias, if the tool is deferred and has no namespace, and no eager tool without a namespace has the same name.
    pub fn permitted<'a, T: 'a>(tool: &Tool<T>, others: impl IntoIterator<Item = &'a Tool<T>>) -> Option<Self> {
        let same = |other: &Tool<T>| other.identity.public_name() == tool.identity.public_name();
        let ambiguous = others.into_iter().any(|other| other.identity.is_eager_top_level() && same(other));
        (tool.identity.is_deferred_top_level() && !ambiguous).then_some(Self(()))
    }

    /// The alias for a caller that has already checked: the flag of stored items.
    pub fn asserted(permitted: bool) -> Option<Self> {
        permitted.then_some(Self(()))
    }
}

impl ApprovalKeys {
    /// The texts of a tool of that key, which was called by that name.
    pub fn new(name: &PublicName, key: &LookupKey, alias: Option<BareAlias>) -> Self {
        let canonical = ApprovalKey::canonical(key);
        let alias = alias.map(|BareAlias(())| ApprovalKey(name.as_str().to_owned()));
        Self { alias: alias.filter(|alias| *alias != canonical), canonical }
    }

    /// The texts of a call at this address, or of the chosen key's tool.
    pub fn of(address: &ToolAddress, chosen: Option<&LookupKey>, alias: Option<BareAlias>) -> Self {
        let own = LookupKey::of(address);
        Self::new(&address.name, chosen.unwrap_or(&own), alias)
    }

    /// The text that lasting decisions are filed under, never an alias.
    pub fn canonical(&self) -> &ApprovalKey {
        &self.canonical
    }

    /// All of them, the alias first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ApprovalKey> {
        self.alias.iter().chain([&self.canonical])
    }
}

impl ApprovalKey {
    fn canonical(key: &LookupKey) -> Self {
        let written = |name: &PublicName, namespace: Option<&ExplicitNamespace>| {
            ToolAddress { name: name.clone(), namespace: namespace.cloned() }.qualified_name().as_str().to_owned()
        };
        Self(match key {
            LookupKey::Bare(name) => written(name, None),
            LookupKey::Namespaced { namespace, name } => written(name, Some(namespace)),
            LookupKey::DeferredTopLevel(name) => format!("deferred_top_level:{name}"),
        })
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
