//! The evidence: what the classifier finds in a definition and what its author hints, the more dangerous of the two taken; and
//! how far the tool reaches, which is in neither.

use servanda_contract::tool::{Action, Behaviour, Mutability};
use servanda_identity::classifier::{Annotations, CONFIDENCE_MIN, Classification, Options, Rule, Source, classify};

use super::programs;
use crate::pins::Definition;

/// What a tool seems to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What it does.
    pub behaviour: Behaviour,
    /// How far it reaches.
    pub reach: Reach,
    /// Why, in words for the person who reads `servanda init`.
    pub why: String,
    /// Whether the evidence was enough; if not, the reading is the more dangerous one.
    pub certain: bool,
    /// Where the author and the definition disagree, for a person to look at.
    pub disagreements: Vec<String>,
}

/// How far a tool reaches, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It changes nothing.
    ReadOnly,
    /// It changes something of the upstream's own.
    Internal,
    /// It is seen outside.
    External,
    /// It destroys, pays, grants, deploys or runs whatever it is given.
    Critical,
}

/// How sure a look has to be where its author does not say so too. Looks are seldom wrong, because the classifier leans
/// towards changes.
const LOOK_CONFIDENCE_MIN: f64 = 0.6;
/// How sure a change has to be to reach no further than its verb says.
const CHANGE_CONFIDENCE_MIN: f64 = 0.7;

/// Verbs that pay, grant, deploy, switch off or run. What removes something is as grave.
const GRAVE: &str = "pay withdraw buy purchase order charge refund transfer sell trade swap stake donate transact sign grant \
                     approve ban deploy rollback migrate apply shutdown restart reboot reset execute exec eval evaluate run \
                     invoke trigger";
/// Verbs whose effect is seen outside.
const OUTSIDE: &str = "send resend notify publish tweet retweet broadcast announce alert invite submit upload mail email sms \
                       message dm post repost share reply respond call dial release report forward deliver dispatch emit \
                       transmit feedback say speak";

/// Reads the evidence about one tool.
pub(super) fn read(definition: &Definition) -> Reading {
    let descriptor = definition.descriptor();
    let hints = descriptor.annotations.unwrap_or_default();
    // The author's hints are held against what is found without them.
    let found = classify(&descriptor, Options { names: true, annotations: false });
    if let Some(argument) =
        programs::shell_argument(definition).filter(|_| found.behaviour.mutability == Mutability::Pure)
    {
        return runs_shell_text(&found, &argument);
    }
    if found.behaviour.mutability == Mutability::Mutates {
        return change(&found, hints);
    }
    if let Some(warning) = warning(hints) {
        let forced = classify(&descriptor, Options::default()).behaviour;
        let action = if adds(forced.action) && destroys(hints) { Action::Overwrite } else { forced.action };
        let behaviour = Behaviour { action, output_domain: found.behaviour.output_domain, ..forced };
        let why = format!("its author says that it changes something ({warning})");
        let disagreement = format!("{why}, its definition that it looks: {}", because(&found));
        return Reading { behaviour, reach: Reach::External, why, certain: false, disagreements: vec![disagreement] };
    }
    look(found, hints)
}

/// A shell runs any text, so the name of the tool proves nothing. Only a sandbox could keep it from writing.
fn runs_shell_text(found: &Classification, argument: &str) -> Reading {
    let why = format!("its `{argument}` argument is text for a shell, which can do anything");
    let disagreement = format!("{why}; its definition says that it looks: {}", because(found));
    let behaviour = Behaviour::new(Mutability::Mutates, Action::Overwrite, found.behaviour.output_domain);
    Reading { behaviour, reach: Reach::Critical, why, certain: false, disagreements: vec![disagreement] }
}

/// What the author says against a tool.
fn warning(hints: Annotations) -> Option<&'static str> {
    match (hints.read_only_hint, hints.destructive_hint) {
        (Some(false), _) => Some("readOnlyHint: false"),
        (None, Some(true)) => Some("destructiveHint: true"),
        _ => None,
    }
}

fn look(found: Classification, hints: Annotations) -> Reading {
    let agrees = hints.read_only_hint == Some(true);
    if found.confidence.mutability < LOOK_CONFIDENCE_MIN && !agrees {
        let domain = found.behaviour.output_domain;
        return Reading {
            behaviour: Behaviour::new(Mutability::Mutates, Action::Update, domain),
            reach: Reach::External,
            why: format!("{}, but hardly anything else says that it looks, so it counts as a change", because(&found)),
            certain: false,
            disagreements: Vec::new(),
        };
    }
    let and_author = if agrees { ", and its author agrees" } else { "" };
    let why = format!("{}{and_author}", because(&found));
    Reading { behaviour: found.behaviour, reach: Reach::ReadOnly, why, certain: true, disagreements: Vec::new() }
}

fn change(found: &Classification, hints: Annotations) -> Reading {
    let (mut behaviour, mut disagreements) = (found.behaviour.clone(), Vec::new());
    let mut why = because(found);
    if hints.read_only_hint == Some(true) {
        disagreements.push(format!("its author says read-only, but: {why}"));
    }
    let named = found.cautions.iter().any(|caution| caution.rule == Rule::NameChanges);
    let sure = named || found.confidence.mutability >= CHANGE_CONFIDENCE_MIN && found.verb.is_some();
    let (mut reach, mut certain) = match (reach_of(found), sure) {
        (reach, true) => (reach, !is_program(found) && disagreements.is_empty()),
        (reach, false) => (reach.max(Reach::External), false),
    };
    if reach == Reach::Internal && hints.open_world_hint == Some(true) {
        reach = Reach::External;
        why += ", and its author says it reaches outside";
    }
    // Authors say so of what cannot be taken back too; a tool that pays or sends is classed as grave already.
    if adds(behaviour.action) && destroys(hints) && reach < Reach::External {
        let adds =
            std::mem::replace(&mut why, "its author says that it may destroy (destructiveHint: true)".to_owned());
        disagreements.push(format!("{why}, its definition that it adds: {adds}"));
        behaviour.action = Action::Overwrite;
        (reach, certain) = (Reach::External, false);
    }
    let removes = matches!(found.behaviour.action, Action::Delete | Action::Overwrite);
    if removes && hints.destructive_hint == Some(false) && found.confidence.action >= CONFIDENCE_MIN {
        disagreements.push(format!("its author says that it destroys nothing, but: {why}"));
    }
    Reading { behaviour, reach, why, certain, disagreements }
}

fn adds(action: Action) -> bool {
    matches!(action, Action::Create | Action::Append)
}

/// Whether the author says that it may destroy; of a tool that only reads the hint means nothing.
fn destroys(hints: Annotations) -> bool {
    hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true)
}

fn reach_of(found: &Classification) -> Reach {
    let is = |list: &str| found.verb.is_some_and(|(_, verb)| list.split_whitespace().any(|known| known == verb));
    if is_program(found) || found.behaviour.action == Action::Delete || is(GRAVE) {
        Reach::Critical
    } else if is(OUTSIDE) {
        Reach::External
    } else {
        Reach::Internal
    }
}

fn is_program(found: &Classification) -> bool {
    found.cautions.iter().any(|caution| caution.rule == Rule::Program)
}

/// On what it stands, in a few words.
fn because(found: &Classification) -> String {
    let mutates = found.behaviour.mutability == Mutability::Mutates;
    if let Some(program) = found.cautions.iter().find(|caution| caution.rule == Rule::Program) {
        return format!("its `{}` argument is a program, and what that does is not known here", program.word);
    }
    match (found.verb, found.cautions.first()) {
        (Some((Source::Name, verb)), _) => return format!("`{verb}` in its name"),
        (Some((_, verb)), None) => return format!("`{verb}` in its description"),
        _ => {}
    }
    // What was weighed counts for a change where it is positive.
    let speaks = |weight: Option<f64>| weight.map_or(mutates, |weight| (weight > 0.0) == mutates);
    let reason = found.evidence.mutability.iter().find(|reason| speaks(reason.weight));
    match reason {
        Some(reason) => reason.to_string(),
        None if mutates => "nothing says what it does, so it counts as a change".to_owned(),
        None => "nothing says that it changes anything".to_owned(),
    }
}
