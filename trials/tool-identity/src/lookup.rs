//! Which tools can be looked up together, and the table by which a call is routed. There is no fallback of any kind.

use std::collections::{BTreeMap, BTreeSet};

use super::{Handoff, IdentityError, LookupKey, QualifiedName, Tool, ToolAddress, TraceName, check_shape};

/// Refuses tools that a call could not distinguish; reports the first failure in order.
///
/// Several tools of one name without a namespace are accepted: the last of them is called.
pub fn validate<'a, T: 'a>(tools: impl IntoIterator<Item = &'a Tool<T>>) -> Result<(), IdentityError> {
    let mut deferred = BTreeSet::new();
    // Whether the first tool with this written name has a namespace.
    let mut first: BTreeMap<QualifiedName, bool> = BTreeMap::new();
    for tool in tools {
        let Some(address) = tool.identity.address() else { continue };
        check_shape(&address)?;
        if tool.identity.is_deferred_top_level() && !deferred.insert(address.name.clone()) {
            return Err(IdentityError::DuplicateDeferredTopLevel(address.name));
        }
        let namespaced = address.namespace.is_some();
        let written = address.qualified_name();
        match first.get(&written) {
            Some(first) if *first || namespaced => return Err(IdentityError::QualifiedNameCollision(written)),
            Some(_) => {}
            None => {
                first.insert(written, namespaced);
            }
        }
    }
    Ok(())
}

/// Tools by their keys.
#[derive(Debug)]
pub struct LookupTable<'a, T> {
    tools: BTreeMap<LookupKey, &'a Tool<T>>,
}

/// Where a call leads.
#[derive(Debug)]
pub enum Route<'a, T, H> {
    /// To a handoff.
    Handoff(&'a Handoff<H>),
    /// To a tool.
    Tool(&'a Tool<T>),
}

impl<'a, T> LookupTable<'a, T> {
    /// A table of tools that can be looked up together. Of several with one key, the last is in it.
    pub fn build(tools: impl IntoIterator<Item = &'a Tool<T>> + Clone) -> Result<Self, IdentityError> {
        validate(tools.clone())?;
        let keyed = tools.into_iter().filter_map(|tool| Some((tool.identity.lookup_key()?, tool)));
        Ok(Self { tools: keyed.collect() })
    }

    /// The tool of a key.
    pub fn get(&self, key: &LookupKey) -> Option<&'a Tool<T>> {
        self.tools.get(key).copied()
    }

    /// Keys and tools, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&LookupKey, &'a Tool<T>)> {
        self.tools.iter().map(|(key, tool)| (key, *tool))
    }

    /// Where a call at this address leads: to a handoff of that name if it has no namespace, else to the tool of its key.
    pub fn route<H: 'a>(
        &self,
        handoffs: impl IntoIterator<Item = &'a Handoff<H>>,
        address: &ToolAddress,
    ) -> Result<Route<'a, T, H>, IdentityError> {
        let named = handoffs.into_iter().filter(|handoff| handoff.name == address.name).last();
        if let (None, Some(handoff)) = (&address.namespace, named) {
            return Ok(Route::Handoff(handoff));
        }
        // The name as the caller wrote it, not as a trace would label it: `missing.missing` shows what the caller did.
        let not_found = || IdentityError::ToolNotFound(address.qualified_name().as_str().to_owned());
        self.get(&LookupKey::of(address)).map(Route::Tool).ok_or_else(not_found)
    }
}

impl<T, H> Route<'_, T, H> {
    /// The called name in reports.
    pub fn reported_name(&self) -> Option<TraceName> {
        match self {
            Self::Handoff(handoff) => Some(ToolAddress { name: handoff.name.clone(), namespace: None }.trace_name()),
            Self::Tool(tool) => tool.identity.trace_name(),
        }
    }
}
