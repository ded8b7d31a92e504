//! The evidence about a tool: what the classifier finds in its definition, and what its author hints. If both are clear, the
//! more dangerous of the two wins; the author's hint decides only if the definition says nothing. That a server reaches outside
//! (`openWorldHint`) makes no tool graver: looking at the world changes nothing in it.

use serde_json::Value;
use servanda_contract::tool::{Action, Behaviour, Mutability, OutputDomain};
use servanda_identity::classifier::{
    Annotations, CONFIDENCE_MIN, Caution, CautionRule, Classification, ClassifierOptions, EvidenceSource, Gravity,
    classify,
};

use super::{programs, spelling};
use crate::pins::Definition;

/// What a tool seems to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredBehaviour {
    /// What it does.
    pub behaviour: Behaviour,
    /// How far it reaches.
    pub reach: ToolReach,
    /// The reason, in words for the person who reads `servanda init`.
    pub why: String,
    /// Whether the evidence was enough; if not, the reading is the more dangerous one.
    pub certain: bool,
    /// Where the author and the definition disagree, for a person to review.
    pub disagreements: Vec<String>,
    /// Whether the tool does nothing beside running the program in its argument.
    pub acts_only_through_program: bool,
}

/// How far a tool reaches, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolReach {
    /// It changes nothing.
    ReadOnly,
    /// It changes its own temporary state.
    Temporary,
    /// It changes something small inside the upstream.
    Minor,
    /// It changes something inside the upstream that people work with.
    Internal,
    /// Its change is visible outside, or others depend on it.
    External,
    /// It destroys, pays, grants, deploys or runs arbitrary code.
    Critical,
}

/// The confidence needed to call a tool a read if neither its author nor a verb says so.
const LOOK_CONFIDENCE_MIN: f64 = 0.6;
/// The confidence needed to call a change certain.
const CHANGE_CONFIDENCE_MIN: f64 = 0.7;

impl InferredBehaviour {
    /// Whether the program in its arguments decides how grave a call is: the tool only runs the program, and the tool changes
    /// something.
    pub(super) fn is_decided_by_program(&self) -> bool {
        self.acts_only_through_program && self.reach == ToolReach::Critical
    }
}

/// Reads the evidence about one tool.
pub(super) fn read(definition: &Definition) -> InferredBehaviour {
    let descriptor = definition.descriptor();
    let hints = descriptor.annotations.unwrap_or_default();
    // The author's hints are compared with what the classifier finds without them.
    let found = classify(&descriptor, ClassifierOptions { names: true, annotations: false });
    if let Some(argument) =
        programs::shell_argument(definition).filter(|_| found.behaviour.mutability == Mutability::Pure)
    {
        return runs_shell_text(&found, &argument);
    }
    if found.behaviour.mutability == Mutability::Mutates {
        return seen_as_look(definition, &found, hints).unwrap_or_else(|| change(&found, hints));
    }
    if let Some(warning) = warning(hints) {
        let forced = classify(&descriptor, ClassifierOptions::default()).behaviour;
        let action = if adds(forced.action) && destroys(hints) { Action::Overwrite } else { forced.action };
        let behaviour = Behaviour { action, output_domain: found.behaviour.output_domain, ..forced };
        let why = format!("its author says that it changes something ({warning})");
        let disagreement = format!("{why}, its definition that it looks: {}", because(&found));
        // An author who says that nothing is destroyed means state that a read leaves behind.
        let harmless = hints.destructive_hint == Some(false) && found.looking.is_some();
        let reach = if harmless { ToolReach::Temporary } else { ToolReach::Internal };
        return InferredBehaviour {
            behaviour,
            reach,
            why,
            certain: false,
            disagreements: vec![disagreement],
            acts_only_through_program: false,
        };
    }
    look(found, hints)
}

/// A shell runs any text, so the tool's name proves nothing. Only a sandbox could prevent writes.
fn runs_shell_text(found: &Classification, argument: &str) -> InferredBehaviour {
    let why = format!("its `{argument}` argument is text for a shell, which can do anything");
    let disagreement = format!("{why}; its definition says that it looks: {}", because(found));
    let behaviour = Behaviour::new(Mutability::Mutates, Action::Overwrite, found.behaviour.output_domain);
    InferredBehaviour {
        behaviour,
        reach: ToolReach::Critical,
        why,
        certain: false,
        disagreements: vec![disagreement],
        acts_only_through_program: false,
    }
}

/// The author's hint that the tool changes something, if there is one.
fn warning(hints: Annotations) -> Option<&'static str> {
    match (hints.read_only_hint, hints.destructive_hint) {
        (Some(false), _) => Some("readOnlyHint: false"),
        (None, Some(true)) => Some("destructiveHint: true"),
        _ => None,
    }
}

/// A change by the classifier's weights alone counts as a read if its verb is certain, or if its author says so and nothing
/// contradicts it.
fn seen_as_look(definition: &Definition, found: &Classification, hints: Annotations) -> Option<InferredBehaviour> {
    let agrees = hints.read_only_hint == Some(true);
    // At this confidence or above, the review would object to the contract.
    if found.confidence.mutability >= CONFIDENCE_MIN || warning(hints).is_some() {
        return None;
    }
    let contradicts = |caution: &Caution| match caution.rule {
        CautionRule::Silent | CautionRule::Foreign => !agrees,
        CautionRule::Destination => !agrees || is_required(definition, &caution.word),
        _ => true,
    };
    let (gravity, _) = &found.gravity;
    let looking = found.looking.or_else(|| reading_language(definition));
    if found.cautions.iter().any(contradicts) || *gravity == Gravity::Critical {
        return None;
    }
    let why = match (looking, agrees) {
        (Some(verb), true) => format!("`{verb}` says that it looks, and its author agrees"),
        (Some(verb), false) => format!("`{verb}` says that it looks, and nothing says that it changes anything"),
        (None, true) => "its author says read-only, and nothing in its definition contradicts that".to_owned(),
        (None, false) => return None,
    };
    let domain = match found.behaviour.output_domain {
        OutputDomain::Ack => OutputDomain::Data,
        domain => domain,
    };
    let behaviour = Behaviour {
        content_type: found.behaviour.content_type,
        ..Behaviour::new(Mutability::Pure, Action::Read, domain)
    };
    Some(InferredBehaviour {
        behaviour,
        reach: ToolReach::ReadOnly,
        why,
        certain: looking.is_some(),
        disagreements: Vec::new(),
        acts_only_through_program: false,
    })
}

/// Languages that can only query. A tool that runs one of them only reads.
const READING_LANGUAGES: [&str; 9] = ["soql", "sosl", "promql", "logql", "jql", "kql", "dax", "groq", "traceql"];

fn reading_language(definition: &Definition) -> Option<&'static str> {
    let named = spelling::words(&definition.name);
    READING_LANGUAGES.into_iter().find(|language| named.iter().any(|word| word == language))
}

fn is_required(definition: &Definition, argument: &str) -> bool {
    let required = definition.input_schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|name| name == argument))
}

fn look(found: Classification, hints: Annotations) -> InferredBehaviour {
    let agrees = hints.read_only_hint == Some(true);
    if found.confidence.mutability < LOOK_CONFIDENCE_MIN && !agrees && found.looking.is_none() {
        let domain = found.behaviour.output_domain;
        return InferredBehaviour {
            behaviour: Behaviour::new(Mutability::Mutates, Action::Update, domain),
            reach: reach_of(found.gravity.0).max(ToolReach::Internal),
            why: format!("{}, but hardly anything else says that it looks, so it counts as a change", because(&found)),
            certain: false,
            disagreements: Vec::new(),
            acts_only_through_program: false,
        };
    }
    let and_author = if agrees { ", and its author agrees" } else { "" };
    let why = format!("{}{and_author}", because(&found));
    InferredBehaviour {
        behaviour: found.behaviour,
        reach: ToolReach::ReadOnly,
        why,
        certain: true,
        disagreements: Vec::new(),
        acts_only_through_program: false,
    }
}

fn change(found: &Classification, hints: Annotations) -> InferredBehaviour {
    let (mut behaviour, mut disagreements) = (found.behaviour.clone(), Vec::new());
    let mut why = because(found);
    if hints.read_only_hint == Some(true) {
        disagreements.push(format!("its author says read-only, but: {why}"));
    }
    let named = found.cautions.iter().any(|caution| caution.rule == CautionRule::NameChanges);
    let sure = named || found.confidence.mutability >= CHANGE_CONFIDENCE_MIN && found.verb.is_some();
    // Nothing says that a tool without a known verb is harmless.
    let nameless = !sure && found.verb.is_none() && found.gravity.1.is_none();
    let mut reach = if nameless { ToolReach::External } else { reach_of(found.gravity.0) };
    let mut certain = sure && !is_program(found) && disagreements.is_empty();
    if let Some(family) = &found.gravity.1
        && !is_program(found)
    {
        why = format!("{why}; {family}");
    }
    // Authors also set this hint for actions that cannot be undone; a tool that pays or sends is already classed as grave.
    if adds(behaviour.action) && destroys(hints) && reach < ToolReach::External {
        let adds =
            std::mem::replace(&mut why, "its author says that it may destroy (destructiveHint: true)".to_owned());
        disagreements.push(format!("{why}, its definition that it adds: {adds}"));
        behaviour.action = Action::Overwrite;
        (reach, certain) = (ToolReach::External, false);
    }
    let removes = matches!(found.behaviour.action, Action::Delete | Action::Overwrite);
    if removes && hints.destructive_hint == Some(false) && found.confidence.action >= CONFIDENCE_MIN {
        disagreements.push(format!("its author says that it destroys nothing, but: {why}"));
    }
    InferredBehaviour {
        behaviour,
        reach,
        why,
        certain,
        disagreements,
        acts_only_through_program: found.acts_only_through_program,
    }
}

fn adds(action: Action) -> bool {
    matches!(action, Action::Create | Action::Append)
}

/// Whether the author says that it may destroy; the hint means nothing for a read-only tool.
fn destroys(hints: Annotations) -> bool {
    hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true)
}

const fn reach_of(gravity: Gravity) -> ToolReach {
    match gravity {
        Gravity::Temporary => ToolReach::Temporary,
        Gravity::Minor => ToolReach::Minor,
        Gravity::Ordinary => ToolReach::Internal,
        Gravity::Outside => ToolReach::External,
        Gravity::Critical => ToolReach::Critical,
    }
}

fn is_program(found: &Classification) -> bool {
    found.cautions.iter().any(|caution| caution.rule == CautionRule::Program)
}

/// The grounds for the reading, in a few words.
fn because(found: &Classification) -> String {
    let mutates = found.behaviour.mutability == Mutability::Mutates;
    if let Some(program) = found.cautions.iter().find(|caution| caution.rule == CautionRule::Program) {
        return format!("its `{}` argument is a program, and what the program does is unknown", program.word);
    }
    match (found.verb, found.cautions.first()) {
        (Some((EvidenceSource::Name, verb)), _) => return format!("`{verb}` in its name"),
        (Some((_, verb)), None) => return format!("`{verb}` in its description"),
        _ => {}
    }
    // A positive weight counts for a change.
    let speaks = |weight: Option<f64>| weight.map_or(mutates, |weight| (weight > 0.0) == mutates);
    let reason = found.evidence.mutability.iter().find(|reason| speaks(reason.weight));
    match reason {
        Some(reason) => reason.to_string(),
        None if mutates => "nothing says what it does, so it counts as a change".to_owned(),
        None => "nothing says that it changes anything".to_owned(),
    }
}
