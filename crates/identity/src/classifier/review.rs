//! Whether a contract's word on what its tool does stands: its author's hints and its definition are heard, and whatever speaks
//! for more danger than is declared is an objection that a person has to look at. What comes of it is not decided here.

#[cfg(test)]
mod tests;

use serde::Serialize;
use servanda_contract::{
    ToolContract,
    tool::{Action, Mutability, SideEffectClass},
};

use super::{Annotations, Classification, ClassificationEvidence, ClassificationReason, EvidenceSource};

/// How sure a classification has to be before it speaks against a person. Measured on the tools whose authors declare that
/// they are read-only (`docs/classifier.md`): at 0.8 five of six objections look right, at 0.6 hardly three of five.
pub const CONFIDENCE_MIN: f64 = 0.8;

/// How many reasons an objection names.
const REASONS_MAX: usize = 2;

/// What a contract declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeclaredBehaviour<'a> {
    /// Whether it changes anything: by its effect class, which every contract has.
    pub mutability: Mutability,
    /// What it does, where the contract says so.
    pub action: Option<Action>,
    /// Whether it is declared to be grave already: seen outside, or beyond undoing. Then nobody can add danger to it.
    pub grave: bool,
    /// Why that is right, in the words of whoever looked.
    pub reviewed: Option<&'a str>,
}

/// What came of hearing everybody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ReviewOutcome {
    /// What was found bears out what is declared.
    Corroborated,
    /// Somebody says that it changes something, or destroys, and the declaration says that it does not.
    Flagged {
        /// Who, and why.
        objections: Vec<Objection>,
    },
    /// The declaration is the more dangerous one: there is nothing to do.
    Cautious,
    /// Nobody says anything against it, and the definition does not say enough for it.
    Unclear,
    /// There were objections, and somebody has answered them.
    Settled {
        /// In which words.
        why: String,
        /// Which.
        objections: Vec<Objection>,
    },
}

/// One voice for more danger than is declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Objection {
    /// Whose.
    pub by: ObjectionSource,
    /// What is declared: `PURE`, or an action.
    pub declared: &'static str,
    /// What the witness says it is.
    pub found: &'static str,
    /// On what that stands, the weightiest first.
    pub evidence: Vec<String>,
}

/// Who says what a tool does, apart from its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectionSource {
    /// The server's author, by hints.
    Author,
    /// The definition, as the classifier reads it.
    Definition,
}

impl<'a> DeclaredBehaviour<'a> {
    /// What a contract says with its effect class, its side effects and, where it has one, its behaviour.
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
    /// What nobody has answered yet.
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

/// Hears the author and the definition about a declaration. `found` is to be read without the author's hints: they are a
/// witness of their own, and nothing is to be counted twice. A hint that is absent says nothing, and one that would make a
/// tool look safer is not heard.
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

/// How much an action can undo: looking, adding, changing, replacing, removing.
fn gravity(action: Action) -> u8 {
    match action {
        Action::Read | Action::Search => 0,
        Action::Append | Action::Create => 1,
        Action::Update | Action::Merge => 2,
        Action::Overwrite => 3,
        Action::Delete => 4,
    }
}

/// What the author's hints say against the declaration. `destructiveHint` means something only beside a change, and a tool
/// that only adds is the one thing that it contradicts; authors also give it to what cannot be taken back, such as a payment.
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
    // Replacing and updating shade into each other; that something is destroyed where it is said to be added or changed does not.
    let destroys = gravity(acts) >= gravity(Action::Overwrite) && gravity(acts) >= gravity(action) + 2;
    if !destroys || found.confidence.action < CONFIDENCE_MIN {
        return None;
    }
    let evidence = found.evidence.action.iter().take(REASONS_MAX).map(ToString::to_string).collect();
    Some(Objection { by, declared: action.word(), found: acts.word(), evidence })
}

/// The reasons that speak for a change: rules, else the verb, else what was weighed, which says least to a person.
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
