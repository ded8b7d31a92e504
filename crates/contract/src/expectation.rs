//! What behaviour is expected of the tool that serves a call: by the task it belongs to, by what the client says it wants to
//! do, by a rule of the operator's, or by a call that went before. Only the words, and whether a behaviour is among them; the
//! behaviour gate decides.

use std::{collections::BTreeMap, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::tool::{Action, Behaviour, ContentType, Mutability, OutputDomain, ToolContract};

/// Some behaviours. What is not said may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BehaviourPattern {
    /// Whether the tool may change something, or has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutability: Option<Mutability>,
    /// What it may do: one action or several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(with = "OneOrSeveral<Action>")]
    pub action: Vec<Action>,
    /// What it may return: one domain or several.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    #[schemars(with = "OneOrSeveral<OutputDomain>")]
    pub output_domain: Vec<OutputDomain>,
    /// What the content has to be made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<ContentType>,
}

/// What a client says a call is for, apart from what it asks. Nothing of it is believed yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aims {
    /// A task that the operator declared.
    pub task: Option<String>,
    /// `read`, `write` or `destructive`.
    pub intent: Option<String>,
    /// An earlier call: one of the same kind is meant.
    pub like: Option<String>,
}

/// What a client can say it wants to do with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Change nothing.
    Read,
    /// Change something, and remove or replace nothing.
    Write,
    /// Remove or replace something.
    Destructive,
}

/// What is expected of a tool, and who expects it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Who.
    pub source: ExpectationSource,
    /// The behaviours that fit: one of them has to.
    pub allowed: Vec<BehaviourPattern>,
}

/// Who expects something of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectationSource {
    /// A task that the operator declared.
    Task(String),
    /// The client, for this call.
    Intent(Intent),
    /// A rule of the operator's, by its name.
    Rule(String),
    /// An earlier call.
    Call(String),
}

/// What an operator has said is expected of tools: for the tasks that clients can name, and always.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectations {
    /// What each task expects.
    pub tasks: BTreeMap<String, Vec<BehaviourPattern>>,
    /// What is expected whatever the task, by name.
    pub rules: Vec<ExpectationRule>,
}

/// What is expected of some calls, whatever their task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectationRule {
    /// Its name, for refusals.
    pub name: String,
    /// Whose calls: clients by the name they give; all if there are none.
    pub clients: Vec<String>,
    /// Calls to which servers; all if there are none.
    pub upstreams: Vec<String>,
    /// Only calls that name no task.
    pub without_task: bool,
    /// The behaviours that fit.
    pub allowed: Vec<BehaviourPattern>,
}

/// As people write it.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "this is none of the words that can stand here, nor a list of them; `servanda schema config` has them"
)]
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

    /// Whether a tool's behaviour is among them. Of a tool that declares none, only its mutability is known.
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

    /// What it expects of a tool. Whoever says `write` does not mean a tool that removes.
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

/// As an identity is written, `*` for anything: `MUTATES|CREATE,UPDATE|*`.
impl fmt::Display for BehaviourPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |words: Vec<&'static str>| if words.is_empty() { "*".to_owned() } else { words.join(",") };
        let actions = several(self.action.iter().map(|action| action.word()).collect());
        let domains = several(self.output_domain.iter().map(|domain| domain.word()).collect());
        write!(formatter, "{}|{actions}|{domains}", self.mutability.map_or("*", Mutability::word))?;
        self.content_type.map_or(Ok(()), |content| write!(formatter, "|{}", content.word()))
    }
}

/// As part of a sentence.
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
