//! What a contract says about a person's approval: whether a call needs one, from whom, and what the person is shown.
//!
//! A contract that says nothing leaves it to the side-effect class and the policies; `servanda-approval` puts the three together.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The longest template of a consequence or of a state.
pub const CONSEQUENCE_CHARS_MAX: usize = 500;
/// The longest name of the argument of an upstream's own dry run.
const DRY_RUN_ARGUMENT_CHARS_MAX: usize = 128;

/// Whether and how people approve calls of a tool. Members that are left out have the values of the pattern.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalTerms {
    /// Whether each call needs an approval. Without it, the side-effect class decides. A policy may ask for an approval all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Who decides, and how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<ApprovalPattern>,
    /// The groups whose members may decide.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// How many different people have to approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 9))]
    pub quorum: Option<u8>,
    /// How sure the gateway must be that a person decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presence: Option<Presence>,
    /// How long people have to decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub decide_within_sec: Option<u64>,
    /// How long an approval can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub use_within_sec: Option<u64>,
    /// Pattern `queue`: how many of a hundred calls are held for review; the others pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub sample_percent: Option<u8>,
    /// What happens if the call is approved, for people; `{name}` stands for the call's argument of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub consequence: Option<String>,
    /// The read-only tool that shows the state before the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<StateQuery>,
    /// The state that is expected after the call, for people; `{name}` stands for an argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 500))]
    pub after: Option<String>,
    /// How the upstream itself performs the call without changing anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<UpstreamDryRun>,
}

/// Who decides about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPattern {
    /// An approver reviews calls in bulk, when there is time.
    Queue,
    /// The person for whom the agent acts, or an approver.
    Consent,
    /// An approver who is not the requester.
    Operator,
    /// Several approvers, none of whom is the requester.
    Dual,
    /// Approvers who are responsible for compliance, none of whom is the requester.
    Compliance,
}

/// How sure the gateway is that a person decides; each level includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// The person has a session in the console.
    #[default]
    Session,
    /// The person signed in within the last few minutes.
    Fresh,
    /// The person's passkey signed this decision.
    Passkey,
}

/// The question by which a read-only tool shows a state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateQuery {
    /// The read-only tool to ask, by contract name.
    pub tool: String,
    /// Its arguments; `{name}` stands for the call's argument of that name.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// The argument that makes the upstream perform a call without changing anything. With it, the author of the contract says that the upstream
/// keeps to that: the gateway sends such a call as a read, for dry runs alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamDryRun {
    /// The name of the argument.
    pub argument: String,
    /// The value that means "change nothing".
    pub value: Value,
}

impl ApprovalPattern {
    /// Every pattern, the mildest first.
    pub const ALL: [Self; 5] = [Self::Queue, Self::Consent, Self::Operator, Self::Dual, Self::Compliance];

    /// The word in files and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Consent => "consent",
            Self::Operator => "operator",
            Self::Dual => "dual",
            Self::Compliance => "compliance",
        }
    }

    /// The pattern of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pattern| pattern.word() == word)
    }
}

impl Presence {
    /// Every level, the weakest first.
    pub const ALL: [Self; 3] = [Self::Session, Self::Fresh, Self::Passkey];

    /// The word in files and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Fresh => "fresh",
            Self::Passkey => "passkey",
        }
    }

    /// The level of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|presence| presence.word() == word)
    }
}

impl ApprovalTerms {
    /// Why the terms contradict themselves or the rest of the contract, if they do.
    pub(crate) fn faults(&self, confirmation_required: bool, own: &str) -> Vec<String> {
        let mut faults = Vec::new();
        if self.required == Some(false) && confirmation_required {
            faults.push(
                "approval.required is false and transactional.confirmation_required is true: leave one of them out"
                    .to_owned(),
            );
        }
        if self.sample_percent.is_some() && self.pattern != Some(ApprovalPattern::Queue) {
            faults
                .push("approval.sample_percent needs `pattern: queue`: every other pattern holds each call".to_owned());
        }
        if self.pattern == Some(ApprovalPattern::Dual) && self.quorum.is_some_and(|quorum| quorum < 2) {
            faults.push("approval.quorum: `pattern: dual` needs two people or more".to_owned());
        }
        if self.before.as_ref().is_some_and(|before| before.tool == own) {
            faults.push("approval.before: a tool cannot show its own state; name a read-only tool".to_owned());
        }
        let bounds = [
            ("quorum", self.quorum.map(u64::from), 1, 9),
            ("decide_within_sec", self.decide_within_sec, 1, 2_592_000),
            ("use_within_sec", self.use_within_sec, 1, 86_400),
            ("sample_percent", self.sample_percent.map(u64::from), 1, 100),
        ];
        for (name, value, least, most) in bounds {
            if value.is_some_and(|value| !(least..=most).contains(&value)) {
                faults.push(format!("approval.{name} must be {least} to {most}"));
            }
        }
        if let Some(dry_run) = &self.dry_run {
            let name = &dry_run.argument;
            if name.is_empty() || name.chars().nth(DRY_RUN_ARGUMENT_CHARS_MAX).is_some() {
                faults
                    .push(format!("approval.dry_run.argument must have 1 to {DRY_RUN_ARGUMENT_CHARS_MAX} characters"));
            }
            if !matches!(dry_run.value, Value::Bool(_) | Value::String(_) | Value::Number(_)) {
                faults.push("approval.dry_run.value must be true, false, a text or a number".to_owned());
            }
        }
        for (name, text) in [("consequence", &self.consequence), ("after", &self.after)] {
            if let Some(text) = text
                && (text.trim().is_empty() || text.chars().nth(CONSEQUENCE_CHARS_MAX).is_some())
            {
                faults.push(format!("approval.{name} must have 1 to {CONSEQUENCE_CHARS_MAX} characters"));
            }
        }
        faults
    }
}
