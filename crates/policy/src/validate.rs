//! Validates policies against the vocabulary, strictly: a policy that could fail during evaluation, or can never apply, is
//! found before it decides any call.
//!
//! Each policy is validated against the part of the schema that concerns it. A policy about one tool's action needs only that
//! action. A policy about all tools that reads no arguments sees the same types for each of them, so one stands for all. Only a
//! policy about all tools that reads arguments is validated against all.

mod closed_words;
mod unseen_arguments;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cedar_policy::{
    ActionConstraint, PolicySet, Schema, ValidationError, ValidationMode, ValidationWarning, Validator,
};

use crate::{
    entity_types::{CALL_OF, tool_of},
    findings::{PolicyFinding, PolicyFindingKind, describe_diagnostic},
    loaded::{LoadedPolicy, PolicySource},
    nearest::nearest,
    schema,
    scope::MAY_NEVER_APPLY,
    vocabulary::Vocabulary,
};

/// Steps from one entity to the next: `principal.user.tenant` has two. A policy cannot read attributes of entities that it
/// names itself, because a call provides only its principal and its tool.
const STEPS_MAX: u32 = 2;

/// The most tools in one schema for policies about single actions.
const TOOLS_TOGETHER_MAX: usize = 8;

/// Every mistake of every policy.
pub(crate) fn all(
    vocabulary: &Vocabulary,
    loaded: &[LoadedPolicy],
    sources: &[PolicySource<'_>],
) -> Vec<PolicyFinding> {
    let mut groups: BTreeMap<SchemaPart, Vec<&LoadedPolicy>> = BTreeMap::new();
    let mut findings = Vec::new();
    for policy in loaded {
        findings.extend(closed_words::findings(policy, sources));
        // An unseen argument is absent to the validator, whose advice would be misleading.
        match unseen_arguments::findings(vocabulary, policy, sources) {
            none if none.is_empty() => groups.entry(SchemaPart::for_policy(policy)).or_default().push(policy),
            some => findings.extend(some),
        }
    }
    let groups = batched(groups);
    findings.extend(groups.iter().flat_map(|(concern, policies)| group(vocabulary, concern, policies, sources)));
    findings
}

/// Groups policies about single actions: each reads only its own action, and building a schema takes longer than checking a few
/// more actions.
fn batched(groups: BTreeMap<SchemaPart, Vec<&LoadedPolicy>>) -> Vec<(SchemaPart, Vec<&LoadedPolicy>)> {
    let mut batches: Vec<(SchemaPart, Vec<&LoadedPolicy>)> = Vec::new();
    for (concern, policies) in groups {
        let batch = batches.last_mut().and_then(|(batch, together)| match (batch, &concern) {
            (SchemaPart::Part { tools, others: false }, SchemaPart::Part { tools: more, others: false })
                if tools.len() + more.len() <= TOOLS_TOGETHER_MAX =>
            {
                tools.extend(more.iter().cloned());
                Some(together)
            }
            _ => None,
        });
        match batch {
            Some(together) => together.extend(policies),
            None => batches.push((concern, policies)),
        }
    }
    batches
}

/// The part of the schema a policy is validated against.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SchemaPart {
    Whole,
    Part { tools: BTreeSet<String>, others: bool },
}

impl SchemaPart {
    fn for_policy(policy: &LoadedPolicy) -> Self {
        let named = match policy.policy.action_constraint() {
            ActionConstraint::Eq(action) => tool_of(&action).map(|tool| BTreeSet::from([tool])),
            ActionConstraint::In(actions) if !actions.is_empty() => actions.iter().map(tool_of).collect(),
            _ => None,
        };
        if named.is_none() && policy.text.contains("args") {
            return Self::Whole;
        }
        let others = named.is_none();
        let mut tools = named.unwrap_or_default();
        if policy.text.contains(CALL_OF) {
            tools.extend(policy.policy.entity_literals().iter().filter_map(tool_of));
        }
        Self::Part { tools, others }
    }

    fn schema_text(&self, vocabulary: &Vocabulary) -> String {
        match self {
            Self::Whole => schema::whole(vocabulary),
            Self::Part { tools, others } => schema::part(vocabulary, tools.iter().map(String::as_str), *others),
        }
    }
}

fn group(
    vocabulary: &Vocabulary,
    concern: &SchemaPart,
    policies: &[&LoadedPolicy],
    sources: &[PolicySource<'_>],
) -> Vec<PolicyFinding> {
    let schema = match Schema::from_cedarschema_str(&concern.schema_text(vocabulary)) {
        Ok((schema, _)) => schema,
        Err(error) => {
            let message = format!("the schema of the tools cannot be read: {}", describe_diagnostic(&error).1);
            return policies
                .iter()
                .map(|it| it.finding(sources, 0, PolicyFindingKind::Engine, message.clone()))
                .collect();
        }
    };
    let set = match PolicySet::from_policies(policies.iter().map(|it| it.policy.clone())) {
        Ok(set) => set,
        Err(error) => {
            let message = error.to_string();
            return policies
                .iter()
                .map(|it| it.finding(sources, 0, PolicyFindingKind::Engine, message.clone()))
                .collect();
        }
    };
    let by_id: HashMap<&str, &LoadedPolicy> = policies.iter().map(|policy| (policy.id.as_str(), *policy)).collect();
    let result = Validator::new(schema).validate_with_level(&set, ValidationMode::Strict, STEPS_MAX);
    let mut seen: HashSet<(&str, usize)> = HashSet::new();
    let mut findings = Vec::new();
    let errors = result.validation_errors().map(|error| (error.policy_id(), error_message(vocabulary, error)));
    let warnings = result.validation_warnings().map(|warning| (warning.policy_id(), warning_message(warning)));
    let wrong: HashSet<&str> = result.validation_errors().map(|error| error.policy_id().as_ref()).collect();
    for (id, (kind, (offset, message, hint))) in errors.chain(warnings) {
        let id: &str = id.as_ref();
        let Some(policy) = by_id.get(id) else { continue };
        // That a policy can never apply is not reported if it has another mistake.
        let never = kind == PolicyFindingKind::NeverApplies;
        let meant = never && (policy.may_never_apply() || wrong.contains(id));
        // Cedar names the policy in its message; here it is named separately.
        let told = |words: String| words.replace(&format!("for policy `{id}`, "), "");
        let (message, hint) = (told(message), hint.map(told));
        // The same place is reported once, not for every kind of principal and every tool.
        if !meant && seen.insert((policy.id.as_str(), offset)) {
            findings.push(PolicyFinding { hint, ..policy.finding(sources, offset, kind, message) });
        }
    }
    findings
}

/// The kind of mistake, its offset, the message and the hint.
type ValidationMessage = (PolicyFindingKind, (usize, String, Option<String>));

fn error_message(vocabulary: &Vocabulary, error: &ValidationError) -> ValidationMessage {
    let (offset, message, help) = describe_diagnostic(error);
    if let Some(hint) = meant_action(vocabulary, error, &message) {
        return (PolicyFindingKind::Type, (offset, message, Some(hint)));
    }
    let hint = match error {
        ValidationError::UnrecognizedActionId(_) => {
            "a tool's action is `Action::\"call:<contract name>\"`; see `servanda policy schema`"
        }
        ValidationError::UnsafeOptionalAttributeAccess(_) => {
            "ask first whether it is there: `context.args has note && context.args.note ...`"
        }
        ValidationError::UnsafeAttributeAccess(_) if message.contains("args") => {
            "arguments are typed by tool: name its action, `action == Action::\"call:<contract name>\"`; \
             `servanda policy schema` lists what is not seen"
        }
        ValidationError::EntityDerefLevelViolation(_) => {
            "only the principal, its user and the tool can be looked into: compare others with `==` or `in`"
        }
        _ => return (PolicyFindingKind::Type, (offset, message, help)),
    };
    (PolicyFindingKind::Type, (offset, message, Some(hint.to_owned())))
}

/// The action that was probably meant, among all actions: Cedar saw only some of them.
fn meant_action(vocabulary: &Vocabulary, error: &ValidationError, message: &str) -> Option<String> {
    let ValidationError::UnrecognizedActionId(_) = error else { return None };
    let (_, written) = message.split_once(CALL_OF)?;
    let tool = nearest(written.split('"').next()?, vocabulary.tool_names())?;
    Some(format!("did you mean `Action::\"{CALL_OF}{tool}\"`?"))
}

fn warning_message(warning: &ValidationWarning) -> ValidationMessage {
    let (offset, message, help) = describe_diagnostic(warning);
    match warning {
        ValidationWarning::ImpossiblePolicy(_) => {
            let hint = format!("correct it, or say that it is intended: `@{MAY_NEVER_APPLY}(\"why\")`");
            (PolicyFindingKind::NeverApplies, (offset, message, Some(hint)))
        }
        ValidationWarning::InvalidActionApplication(_) => {
            let hint =
                "what is called is a `Tool`, by a `User` or an `Agent`; all calls are `action in Action::\"call\"`";
            (PolicyFindingKind::NeverApplies, (offset, message, Some(hint.to_owned())))
        }
        _ => (PolicyFindingKind::Deceptive, (offset, message, help)),
    }
}
