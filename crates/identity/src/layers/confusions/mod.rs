//! Tools that take the same arguments: no schema stops an agent that picks the wrong one of them. Groups such tools, says how
//! bad a mix-up would be, and what tells them apart beside their names.
//!
//! This module does not find out what a tool does: the contract says it, or `classifier` recovers it. It refuses nothing.

mod shape;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde::Serialize;
use serde_json::{Map, Value};
use servanda_contract::tool::{Action, Behaviour, ContentType, Mutability, OutputDomain};

/// A tool that may be confused with others.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfusionCandidate {
    /// Its id in reports.
    pub id: String,
    /// Which server it is on.
    pub server: String,
    /// Its name there.
    pub name: String,
    /// Its arguments' schema.
    pub input_schema: Value,
    /// What it is known to do.
    pub conduct: Conduct,
}

/// What a tool is known to do, member by member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Conduct {
    /// Whether it changes anything.
    pub mutability: Option<Mutability>,
    /// What it does.
    pub action: Option<Action>,
    /// What it returns.
    pub output_domain: Option<OutputDomain>,
    /// What the content is made of.
    pub content_type: Option<ContentType>,
    /// Whether what it changes is lost.
    pub destructive: Option<bool>,
}

/// How bad it is to confuse the tools of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfusionSeverity {
    /// They do the same.
    Low,
    /// What they do is not known for all of them.
    Unknown,
    /// They do different things.
    Medium,
    /// Some only read and some write, or some destroy and some do not.
    High,
}

/// A property that can tell tools apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DistinguishingField {
    /// Whether they change anything.
    Mutability,
    /// What they do.
    Action,
    /// What they return.
    OutputDomain,
    /// What the content is made of.
    ContentType,
    /// Whether what they change is lost.
    Destructive,
    /// Their names.
    Name,
    /// Their servers.
    Server,
}

/// Tools that take the same arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion<'a> {
    /// How bad a mix-up would be.
    pub severity: ConfusionSeverity,
    /// The names of the arguments, in order; empty if the tools take none.
    pub parameters: Vec<String>,
    /// The tools, by id.
    pub tools: Vec<&'a ConfusionCandidate>,
    /// What differs among them; properties of behaviour count only if they are known for all.
    pub separated_by: Vec<DistinguishingField>,
}

/// Groups tools whose input schemas are equal except for titles, descriptions and order. The worst groups come first, then the
/// largest.
pub fn confusions(descriptors: &[ConfusionCandidate]) -> Vec<Confusion<'_>> {
    let mut groups: BTreeMap<String, Vec<&ConfusionCandidate>> = BTreeMap::new();
    for descriptor in descriptors {
        groups.entry(shape::canonical(&descriptor.input_schema).to_string()).or_default().push(descriptor);
    }
    let mut found: Vec<Confusion<'_>> =
        groups.into_values().filter(|tools| tools.len() > 1).map(Confusion::among).collect();
    found.sort_by(|one, other| one.order().cmp(&other.order()));
    found
}

impl Confusion<'_> {
    /// Whether behaviour tells the tools apart, and not only their names.
    pub fn is_separated_by_conduct(&self) -> bool {
        self.separated_by.iter().any(|field| !matches!(field, DistinguishingField::Name | DistinguishingField::Server))
    }

    /// Those tools that nothing known tells apart, group by group. A tool about which little is known may be in several groups.
    pub fn alike(&self) -> Vec<Vec<&ConfusionCandidate>> {
        let mut groups: Vec<Vec<&ConfusionCandidate>> = Vec::new();
        for tool in &self.tools {
            let alike = self.tools.iter().copied().filter(|other| !tool.conduct.differs_from(&other.conduct));
            let group: Vec<&ConfusionCandidate> = alike.collect();
            let within =
                |known: &Vec<&ConfusionCandidate>| group.iter().all(|one| known.iter().any(|other| one.id == other.id));
            if group.len() > 1 && !groups.iter().any(within) {
                groups.push(group);
            }
        }
        groups
    }
}

impl<'a> Confusion<'a> {
    fn among(mut tools: Vec<&'a ConfusionCandidate>) -> Self {
        tools.sort_by(|one, other| one.id.cmp(&other.id));
        let parameters = tools.first().map(|tool| parameters(&tool.input_schema)).unwrap_or_default();
        let conducts: Vec<Conduct> = tools.iter().map(|tool| tool.conduct).collect();
        Self { severity: severity(&conducts), parameters, separated_by: separated_by(&tools), tools }
    }

    fn order(&self) -> impl Ord {
        let first = self.tools.first().map(|tool| tool.id.clone());
        (std::cmp::Reverse(self.severity), std::cmp::Reverse(self.tools.len()), first)
    }
}

impl Conduct {
    /// Whether a property that is known for both differs.
    pub fn differs_from(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        differ(self.mutability, other.mutability)
            || differ(self.action, other.action)
            || differ(self.output_domain, other.output_domain)
            || differ(self.content_type, other.content_type)
            || differ(self.destructive, other.destructive)
    }

    /// What an author's annotations say. A missing annotation is unknown, whatever the protocol's default.
    pub fn from_annotations(annotations: &Value) -> Self {
        let hint = |name| annotations.get(name).and_then(Value::as_bool);
        let mutability = hint("readOnlyHint").map(|reads| if reads { Mutability::Pure } else { Mutability::Mutates });
        let destructive = match mutability {
            Some(Mutability::Pure) => Some(false),
            _ => hint("destructiveHint"),
        };
        Self { mutability, destructive, ..Self::default() }
    }
}

impl From<Behaviour> for Conduct {
    fn from(behaviour: Behaviour) -> Self {
        Self {
            mutability: Some(behaviour.mutability),
            action: Some(behaviour.action),
            output_domain: Some(behaviour.output_domain),
            content_type: behaviour.content_type,
            destructive: Some(matches!(behaviour.action, Action::Delete | Action::Overwrite)),
        }
    }
}

impl DistinguishingField {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutability => "mutability",
            Self::Action => "action",
            Self::OutputDomain => "output domain",
            Self::ContentType => "content type",
            Self::Destructive => "destructiveness",
            Self::Name => "name",
            Self::Server => "server",
        }
    }
}

impl fmt::Display for ConfusionSeverity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Low => "low",
            Self::Unknown => "unknown",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

fn severity(conducts: &[Conduct]) -> ConfusionSeverity {
    let mixed = differ(conducts.iter().filter_map(|conduct| conduct.mutability))
        || differ(conducts.iter().filter_map(|conduct| conduct.destructive));
    let unknown = conducts.iter().any(|conduct| conduct.mutability.is_none());
    if mixed {
        ConfusionSeverity::High
    } else if differ(conducts.iter().filter_map(|conduct| conduct.action)) {
        ConfusionSeverity::Medium
    } else if unknown {
        ConfusionSeverity::Unknown
    } else {
        ConfusionSeverity::Low
    }
}

fn separated_by(tools: &[&ConfusionCandidate]) -> Vec<DistinguishingField> {
    // A property that is unknown for one tool does not tell it apart.
    fn known<T: PartialEq>(tools: &[&ConfusionCandidate], member: impl Fn(&Conduct) -> Option<T>) -> bool {
        let values: Option<Vec<T>> = tools.iter().map(|tool| member(&tool.conduct)).collect();
        values.is_some_and(|values| differ(values.into_iter()))
    }
    let fields = [
        (DistinguishingField::Mutability, known(tools, |conduct| conduct.mutability)),
        (DistinguishingField::Action, known(tools, |conduct| conduct.action)),
        (DistinguishingField::OutputDomain, known(tools, |conduct| conduct.output_domain)),
        (DistinguishingField::ContentType, known(tools, |conduct| conduct.content_type)),
        (DistinguishingField::Destructive, known(tools, |conduct| conduct.destructive)),
        (DistinguishingField::Name, differ(tools.iter().map(|tool| &tool.name))),
        (DistinguishingField::Server, differ(tools.iter().map(|tool| &tool.server))),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(field, _)| field).collect()
}

fn differ<T: PartialEq>(mut values: impl Iterator<Item = T>) -> bool {
    values.next().is_some_and(|first| values.any(|value| value != first))
}

fn parameters(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut names: Vec<String> = properties.map(Map::keys).into_iter().flatten().cloned().collect();
    names.sort();
    names
}
