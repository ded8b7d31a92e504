//! Recovers mutability, action, output domain and content type from a descriptor, with the evidence for each. It decides
//! nothing about a call, and it never believes a hint that would make a tool look safer.
//!
//! Mutability is a sum of learnt weights (`model`) over readable features (`features`), overruled only by rules of caution
//! (`caution`). The other fields are rules on verbs and nouns. `docs/classifier.md` is the model card.

mod action;
mod caution;
mod descriptor;
mod domain;
mod evidence;
mod features;
mod gravity;
mod lexicon;
mod mask;
mod model;
mod mutability;
mod phrases;
mod reading;
mod review;
mod schema;
#[cfg(test)]
mod tests;
pub mod training;
mod words;

use serde::Serialize;
use servanda_contract::tool::Behaviour;

pub use caution::{Caution, CautionRule};
pub use descriptor::{Annotations, Descriptor};
pub use evidence::{ClassificationReason, EvidenceSource};
pub use gravity::Gravity;
pub use review::{CONFIDENCE_MIN, DeclaredBehaviour, Objection, ObjectionSource, ReviewOutcome, review};

/// What the classifier may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassifierOptions {
    /// Whether the name and the title are read; without them the name is also masked in the description.
    pub names: bool,
    /// Whether the author's hints are read. They can only raise danger.
    pub annotations: bool,
}

impl Default for ClassifierOptions {
    fn default() -> Self {
        Self { names: true, annotations: true }
    }
}

/// What a tool does, according to its descriptor.
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// The four fields.
    pub behaviour: Behaviour,
    /// The confidence in each field.
    pub confidence: Confidence,
    /// The evidence for each field.
    pub evidence: ClassificationEvidence,
    /// The verb that decided the action, in the infinitive, and where it was found; `None` if no verb decided.
    pub verb: Option<(EvidenceSource, &'static str)>,
    /// The rules of caution that apply.
    pub cautions: Vec<Caution>,
    /// How grave a change by the tool is, and the reason if one family of words decided.
    pub gravity: (Gravity, Option<String>),
    /// Whether the tool does nothing beside running the program in its argument.
    pub acts_only_through_program: bool,
    /// The verb that certainly reads, if neither the name nor the description begins with another kind.
    pub looking: Option<&'static str>,
}

/// The confidence in each field, from zero to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Confidence {
    /// In the mutability.
    pub mutability: f64,
    /// In the action, given the mutability.
    pub action: f64,
    /// In the output domain, given both.
    pub output_domain: f64,
    /// In the content type.
    pub content_type: f64,
}

/// The evidence for each field, the weightiest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassificationEvidence {
    /// The mutability.
    pub mutability: Vec<ClassificationReason>,
    /// The action.
    pub action: Vec<ClassificationReason>,
    /// The output domain.
    pub output_domain: Vec<ClassificationReason>,
    /// The content type.
    pub content_type: Vec<ClassificationReason>,
}

/// Classifies a tool with the weights that ship.
pub fn classify(descriptor: &Descriptor, options: ClassifierOptions) -> Classification {
    classify_with(model::shipped(), descriptor, options)
}

fn classify_with(
    model: &model::ClassifierModel,
    descriptor: &Descriptor,
    options: ClassifierOptions,
) -> Classification {
    let reading = reading::read(descriptor, options.names);
    let hints = descriptor.annotations.filter(|_| options.annotations);
    let judgement = mutability::judge(model, &reading, options.names, hints);
    let action_judgement = action::judge(&reading, judgement.mutability);
    let domain = domain::judge(&reading, judgement.mutability, action_judgement.action);
    let (content_type, certainty, reasons) = domain::content_type(&reading, judgement.mutability);
    let is_its_programs = gravity::acts_only_through_program(&reading, &action_judgement, &judgement.cautions);
    let gravity = gravity::assess(&reading, &action_judgement, &judgement.cautions);
    let rounded = |confidence: f64| (confidence * 1000.0).round() / 1000.0;
    Classification {
        behaviour: Behaviour {
            content_type: Some(content_type),
            ..Behaviour::new(judgement.mutability, action_judgement.action, domain.domain)
        },
        confidence: Confidence {
            mutability: rounded(judgement.confidence),
            action: rounded(action_judgement.confidence),
            output_domain: rounded(domain.confidence),
            content_type: rounded(certainty),
        },
        evidence: ClassificationEvidence {
            mutability: judgement.reasons,
            action: action_judgement.reasons,
            output_domain: domain.reasons,
            content_type: reasons,
        },
        gravity,
        acts_only_through_program: is_its_programs,
        looking: reading.reading_verb(),
        verb: action_judgement.verb,
        cautions: judgement.cautions,
    }
}
