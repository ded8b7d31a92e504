//! Which behaviour is expected of the tool that serves a call. The expectation comes from the call's task, the client's stated
//! intent, an operator's rule, or an earlier call. This module holds the patterns and matches a behaviour against them; the
//! behaviour gate decides.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::tool::{Action, Behaviour, ContentType, Mutability, OutputDomain, ToolContract};

/// A set of behaviours. A member that is not given matches anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BehaviourPattern {
    /// Whether the tool may change something, or has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutability: Option<Mutability>,
    /// What the tool may do: one action or several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(with = "OneOrSeveral<Action>")]
    pub action: Vec<Action>,
    /// What the tool may return: one domain or several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(with = "OneOrSeveral<OutputDomain>")]
    pub output_domain: Vec<OutputDomain>,
    /// What the content has to be made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
}

/// What a client says a call is for, beside the call itself. None of it is verified yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aims {
    /// A task that the operator declared.
    pub task: Option<String>,
    /// `read`, `write` or `destructive`.
    pub intent: Option<String>,
    /// An earlier call; the tool must be of the same kind.
    pub like: Option<String>,
}

/// What a client can say it wants to do with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Change nothing.
    Read,
    /// Change something, but remove or replace nothing.
    Write,
    /// Remove or replace something.
    Destructive,
}

/// What is expected of a tool, and the source of the expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The source.
    pub source: ExpectationSource,
    /// The acceptable behaviours; the tool must match one of them.
    pub allowed: Vec<BehaviourPattern>,
}

/// The source of an expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectationSource {
    /// A task that the operator declared.
    Task(String),
    /// The client, for this call.
    Intent(Intent),
    /// An operator's rule, by name.
    Rule(String),
    /// An earlier call.
    Call(String),
}

/// The operator's expectations of tools: one set per task that clients can name, and rules that always apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectations {
    /// The expectations of each task.
    pub tasks: BTreeMap<String, Vec<BehaviourPattern>>,
    /// Rules that apply to every task, by name.
    pub rules: Vec<ExpectationRule>,
}

/// An operator's expectation of some calls, independent of their task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectationRule {
    /// The rule's name, for refusals.
    pub name: String,
    /// Clients by the name they give; empty means all clients.
    pub clients: Vec<String>,
    /// Servers whose calls the rule covers; empty means all servers.
    pub upstreams: Vec<String>,
    /// True if the rule covers only calls that name no task.
    pub without_task: bool,
    /// The acceptable behaviours.
    pub allowed: Vec<BehaviourPattern>,
}

/// One value, or a list of values.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write one of the allowed words or a list of them; `servanda schema config` lists them")]
#[schemars(rename = "OneOrSeveral{T}")]
enum OneOrSeveral<T> {
    One(T),
    Several(Vec<T>),
}

fn one_or_several<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(match OneOrSeveral::deserialize(deserializer)? {
        OneOrSeveral::One(value) => vec![value],
        OneOrSeveral::Several(values) => values,
    })
}

impl BehaviourPattern {
    /// Exactly this behaviour.
    pub fn exactly(behaviour: &Behaviour) -> Self {
        Self {
            mutability: Some(behaviour.mutability),
            action: vec![behaviour.action],
            output_domain: vec![behaviour.output_domain],
            content_type: behaviour.content_type,
        }
    }

    /// Whether a tool's behaviour matches. A tool that declares no behaviour is matched by its mutability alone.
    pub fn has(&self, mutability: Mutability, declared: Option<&Behaviour>) -> bool {
        let fits = |wanted: bool, has: &dyn Fn(&Behaviour) -> bool| !wanted || declared.is_some_and(has);
        self.mutability.is_none_or(|wanted| wanted == mutability)
            && fits(!self.action.is_empty(), &|behaviour| self.action.contains(&behaviour.action))
            && fits(!self.output_domain.is_empty(), &|behaviour| self.output_domain.contains(&behaviour.output_domain))
            && fits(self.content_type.is_some(), &|behaviour| self.content_type == behaviour.content_type)
    }
}

impl Intent {
    /// The intent of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "read" => Self::Read,
            "write" => Self::Write,
            "destructive" => Self::Destructive,
            _ => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The behaviours that fit this intent. A client that says `write` does not mean a tool that removes something.
    pub fn expectation(self) -> Expectation {
        let (mutability, action) = match self {
            Self::Read => (Mutability::Pure, Vec::new()),
            Self::Write => {
                let kinds = [Action::Create, Action::Update, Action::Merge, Action::Append, Action::Overwrite];
                (Mutability::Mutates, kinds.to_vec())
            }
            Self::Destructive => (Mutability::Mutates, vec![Action::Delete, Action::Overwrite, Action::Merge]),
        };
        let pattern = BehaviourPattern { mutability: Some(mutability), action, ..BehaviourPattern::default() };
        Expectation { source: ExpectationSource::Intent(self), allowed: vec![pattern] }
    }
}

impl Expectation {
    /// Whether a tool's behaviour fits.
    pub fn is_met_by(&self, contract: &ToolContract) -> bool {
        let mutability = contract.mutability();
        self.allowed.iter().any(|pattern| pattern.has(mutability, contract.behaviour.as_ref()))
    }
}

/// Formats the pattern like an identity, with `*` for anything: `MUTATES|CREATE,UPDATE|*`.
impl fmt::Display for BehaviourPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |words: Vec<&'static str>| if words.is_empty() { "*".to_owned() } else { words.join(",") };
        let actions = several(self.action.iter().map(|action| action.word()).collect());
        let domains = several(self.output_domain.iter().map(|domain| domain.word()).collect());
        write!(formatter, "{}|{actions}|{domains}", self.mutability.map_or("*", Mutability::word))?;
        self.content_type.map_or(Ok(()), |content| write!(formatter, "|{}", content.word()))
    }
}

/// Formats the source as part of a sentence.
impl fmt::Display for ExpectationSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(name) => write!(formatter, "the task `{name}`"),
            Self::Intent(intent) => write!(formatter, "the stated intent `{}`", intent.name()),
            Self::Rule(name) => write!(formatter, "the rule `{name}`"),
            Self::Call(call_id) => write!(formatter, "the earlier call `{call_id}`"),
        }
    }
}
