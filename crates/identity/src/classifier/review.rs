//! Reviews a contract's declared behaviour against the author's hints and the tool's definition. Evidence for more danger than
//! the contract declares becomes an objection, which a person has to review. This module does not decide what follows.

#[cfg(test)]
mod tests;

use serde::Serialize;
use servanda_contract::{
    ToolContract,
    tool::{Action, Mutability, SideEffectClass},
};

use super::{Annotations, Classification, ClassificationEvidence, ClassificationReason, EvidenceSource};

/// The confidence that a classification needs to contradict a person. Measured on the tools whose authors declare that they are
/// read-only (`docs/classifier.md`): at 0.8 five of six objections look right, at 0.6 hardly three of five.
pub const CONFIDENCE_MIN: f64 = 0.8;

/// How many reasons an objection names.
const REASONS_MAX: usize = 2;

/// What a contract declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredBehaviour<'a> {
    /// Whether it changes anything: by its effect class, which every contract has.
    pub mutability: Mutability,
    /// What it does, if the contract says so.
    pub action: Option<Action>,
    /// Whether it is already declared grave: visible outside, or impossible to undo. Then no objection can add danger.
    pub grave: bool,
    /// The reviewer's reason why the declaration is right.
    pub reviewed: Option<&'a str>,
}

/// The outcome of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ReviewOutcome {
    /// The evidence confirms the declaration.
    Corroborated,
    /// Some evidence says that the tool changes or destroys something, and the declaration says that it does not.
    Flagged {
        /// The sources and their reasons.
        objections: Vec<Objection>,
    },
    /// The declaration is more dangerous than the evidence: nothing to do.
    Cautious,
    /// Nothing contradicts the declaration, and the definition does not say enough to confirm it.
    Unclear,
    /// There were objections, and a person has answered them.
    Settled {
        /// The person's answer.
        why: String,
        /// The objections.
        objections: Vec<Objection>,
    },
}

/// A source that says that the tool is more dangerous than declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Objection {
    /// The source.
    pub by: ObjectionSource,
    /// What is declared: `PURE`, or an action.
    pub declared: &'static str,
    /// What the source says it is.
    pub found: &'static str,
    /// Its evidence, the weightiest first.
    pub evidence: Vec<String>,
}

/// A source of evidence apart from the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectionSource {
    /// The server's author, through hints.
    Author,
    /// The definition, as the classifier reads it.
    Definition,
}

impl<'a> DeclaredBehaviour<'a> {
    /// What a contract declares by its effect class, its side effects and, if it has one, its behaviour.
    pub fn from_contract(contract: &'a ToolContract) -> Self {
        let behaviour = contract.behaviour.as_ref();
        Self {
            mutability: contract.mutability(),
            action: behaviour.map(|behaviour| behaviour.action),
            grave: contract.transactional.side_effect_class >= SideEffectClass::HighRiskExternal,
            reviewed: behaviour.and_then(|behaviour| behaviour.reviewed.as_deref()),
        }
    }
}

impl ReviewOutcome {
    /// The objections that no person has answered yet.
    pub fn open_objections(&self) -> &[Objection] {
        match self {
            Self::Flagged { objections } => objections,
            _ => &[],
        }
    }
}

impl std::fmt::Display for Objection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = match self.by {
            ObjectionSource::Author => "its author",
            ObjectionSource::Definition => "its definition",
        };
        write!(formatter, "the contract says {}, {who} says {}", self.declared, self.found)?;
        if self.evidence.is_empty() { Ok(()) } else { write!(formatter, " ({})", self.evidence.join("; ")) }
    }
}

/// Compares a declaration with the author's hints and the definition. `found` must come from a classification without the
/// hints: they are a separate source, and nothing may count twice. A missing hint says nothing, and a hint that would make a
/// tool look safer is ignored.
pub fn review(declared: DeclaredBehaviour<'_>, hints: Option<Annotations>, found: &Classification) -> ReviewOutcome {
    let hints = hints.unwrap_or_default();
    let objections: Vec<Objection> = author(declared, hints).into_iter().chain(definition(declared, found)).collect();
    if !objections.is_empty() {
        return match declared.reviewed {
            Some(why) => ReviewOutcome::Settled { why: why.to_owned(), objections },
            None => ReviewOutcome::Flagged { objections },
        };
    }
    let sure = found.confidence.mutability >= CONFIDENCE_MIN;
    let author_agrees = hints.read_only_hint == Some(declared.mutability == Mutability::Pure);
    match (declared.mutability, found.behaviour.mutability) {
        (declared, found) if declared == found && (sure || author_agrees) => ReviewOutcome::Corroborated,
        (Mutability::Mutates, Mutability::Pure) if sure => ReviewOutcome::Cautious,
        _ => ReviewOutcome::Unclear,
    }
}

/// How much an action can destroy: reading, adding, changing, replacing, removing.
fn gravity(action: Action) -> u8 {
    match action {
        Action::Read | Action::Search => 0,
        Action::Append | Action::Create => 1,
        Action::Update | Action::Merge => 2,
        Action::Overwrite => 3,
        Action::Delete => 4,
    }
}

/// The author's hints that contradict the declaration. `destructiveHint` means something only for a change, and contradicts
/// only a tool that is said to add; authors also set it for what cannot be undone, such as a payment.
fn author(declared: DeclaredBehaviour<'_>, hints: Annotations) -> Option<Objection> {
    let destroys = hints.destructive_hint == Some(true) && hints.read_only_hint != Some(true);
    let objection = |declared, found, hint: &str| Objection {
        by: ObjectionSource::Author,
        declared,
        found,
        evidence: vec![hint.to_owned()],
    };
    match (declared.mutability, declared.action) {
        (Mutability::Pure, _) if hints.read_only_hint == Some(false) => {
            Some(objection(Mutability::Pure.word(), Mutability::Mutates.word(), "readOnlyHint: false"))
        }
        (Mutability::Pure, _) if destroys => {
            Some(objection(Mutability::Pure.word(), Mutability::Mutates.word(), "destructiveHint: true"))
        }
        (Mutability::Mutates, Some(action))
            if destroys && !declared.grave && gravity(action) < gravity(Action::Update) =>
        {
            Some(objection(action.word(), "that it may destroy", "destructiveHint: true"))
        }
        _ => None,
    }
}

fn definition(declared: DeclaredBehaviour<'_>, found: &Classification) -> Option<Objection> {
    if found.behaviour.mutability == Mutability::Pure || found.confidence.mutability < CONFIDENCE_MIN {
        return None;
    }
    let by = ObjectionSource::Definition;
    if declared.mutability == Mutability::Pure {
        let (declared, said) = (Mutability::Pure.word(), Mutability::Mutates.word());
        return Some(Objection { by, declared, found: said, evidence: for_a_change(&found.evidence) });
    }
    let (action, acts) = (declared.action.filter(|_| !declared.grave)?, found.behaviour.action);
    // Replacing and updating are hard to tell apart; destroying is clearly different from adding or changing.
    let destroys = gravity(acts) >= gravity(Action::Overwrite) && gravity(acts) >= gravity(action) + 2;
    if !destroys || found.confidence.action < CONFIDENCE_MIN {
        return None;
    }
    let evidence = found.evidence.action.iter().take(REASONS_MAX).map(ToString::to_string).collect();
    Some(Objection { by, declared: action.word(), found: acts.word(), evidence })
}

/// The reasons for a change: rules first, then the verb, then weighed words, which tell a person least.
fn for_a_change(evidence: &ClassificationEvidence) -> Vec<String> {
    let told = |reasons: &[&ClassificationReason]| {
        reasons.iter().take(REASONS_MAX).map(ToString::to_string).collect::<Vec<_>>()
    };
    let of = |speaks: fn(&&ClassificationReason) -> bool| {
        evidence.mutability.iter().filter(speaks).collect::<Vec<&ClassificationReason>>()
    };
    let rules = of(|reason| reason.weight.is_none());
    let verbs: Vec<&ClassificationReason> =
        evidence.action.iter().filter(|reason| reason.from != EvidenceSource::Default).collect();
    let weighed = of(|reason| reason.weight.is_some_and(|weight| weight > 0.0));
    [rules, verbs, weighed].iter().find(|reasons| !reasons.is_empty()).map(|reasons| told(reasons)).unwrap_or_default()
}
