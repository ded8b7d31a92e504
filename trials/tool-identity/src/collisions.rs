//! Names shared by several tools or handoffs without a namespace, before anything is exposed.

use std::collections::BTreeMap;

use super::{Handoff, IdentityError, LookupKey, NameConflict, NameSource, PublicName, Tool, lookup};

/// What to do about a shared name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollisionPolicy {
    /// Refuse. A gateway for several tenants wants this.
    Refuse,
    /// Keep one: the last handoff if there is one, else the last tool.
    KeepLast,
}

/// What is left, in the order in which it was given.
#[derive(Debug)]
pub struct Survivors<'a, T, H> {
    /// Tools.
    pub tools: Vec<&'a Tool<T>>,
    /// Handoffs.
    pub handoffs: Vec<&'a Handoff<H>>,
}

/// Settles shared names. Tools in namespaces, deferred ones and those that are not called by name never share one.
pub fn resolve<'a, T, H>(
    tools: &[&'a Tool<T>],
    handoffs: &[&'a Handoff<H>],
    policy: CollisionPolicy,
) -> Result<Survivors<'a, T, H>, IdentityError> {
    lookup::validate(tools.iter().copied())?;
    let groups = groups(tools, handoffs);
    if policy == CollisionPolicy::Refuse {
        let shared = groups.values().filter(|group| group.tools.len() + group.handoffs.len() > 1);
        if let Some(group) = shared.min_by_key(|group| group.first) {
            return Err(IdentityError::NameConflict { conflict: group.conflict(), name: group.name.clone() });
        }
    }
    let tools = tools.iter().enumerate().filter(|(position, tool)| {
        let group = bare_name(tool).and_then(|name| groups.get(&name));
        group.is_none_or(|group| {
            group.handoffs.is_empty() && group.tools.last() == Some(&(*position, &tool.identity.source))
        })
    });
    let handoffs = handoffs.iter().enumerate().filter(|(position, handoff)| {
        let group = groups.get(&handoff.name);
        group.is_none_or(|group| group.handoffs.last() == Some(&(*position, &handoff.source)))
    });
    Ok(Survivors {
        tools: tools.map(|(_, tool)| *tool).collect(),
        handoffs: handoffs.map(|(_, handoff)| *handoff).collect(),
    })
}

/// Everything of one name, with its position among its kind.
struct Group<'a> {
    name: PublicName,
    first: usize,
    tools: Vec<(usize, &'a NameSource)>,
    handoffs: Vec<(usize, &'a NameSource)>,
}

fn groups<'a, T, H>(tools: &[&'a Tool<T>], handoffs: &[&'a Handoff<H>]) -> BTreeMap<PublicName, Group<'a>> {
    let mut groups: BTreeMap<PublicName, Group<'a>> = BTreeMap::new();
    let seen = |name: PublicName, groups: &mut BTreeMap<PublicName, Group<'a>>| {
        let first = groups.len();
        groups.entry(name.clone()).or_insert(Group { name, first, tools: Vec::new(), handoffs: Vec::new() });
    };
    for (position, tool) in tools.iter().enumerate() {
        let Some(name) = bare_name(tool) else { continue };
        seen(name.clone(), &mut groups);
        if let Some(group) = groups.get_mut(&name) {
            group.tools.push((position, &tool.identity.source));
        }
    }
    for (position, handoff) in handoffs.iter().enumerate() {
        seen(handoff.name.clone(), &mut groups);
        if let Some(group) = groups.get_mut(&handoff.name) {
            group.handoffs.push((position, &handoff.source));
        }
    }
    groups
}

fn bare_name<T>(tool: &Tool<T>) -> Option<PublicName> {
    match tool.identity.lookup_key()? {
        LookupKey::Bare(name) => Some(name),
        LookupKey::DeferredTopLevel(_) | LookupKey::Namespaced { .. } => None,
    }
}

impl Group<'_> {
    fn conflict(&self) -> NameConflict {
        let sources: Vec<&NameSource> = self.tools.iter().chain(&self.handoffs).map(|(_, source)| *source).collect();
        // Two agents whose derived names are equal: the remedy is to rename one of them, so the error is different.
        let derived = matches!(sources.as_slice(), [NameSource::Agent(one), NameSource::Agent(other)] if one != other);
        match (self.tools.is_empty(), self.handoffs.is_empty(), derived) {
            (false, true, false) => NameConflict::Tools,
            (false, true, true) => NameConflict::DerivedTools,
            (true, _, false) => NameConflict::Handoffs,
            (true, _, true) => NameConflict::DerivedHandoffs,
            (false, false, false) => NameConflict::ToolsAndHandoffs,
            (false, false, true) => NameConflict::DerivedToolAndHandoff,
        }
    }
}
