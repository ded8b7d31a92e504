//! The evidence of a classification, in words and numbers that a person can check. It decides nothing.

use serde::Serialize;

use super::{
    caution::Caution,
    features::{Feature, FeatureKind},
};

/// One reason for one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassificationReason {
    /// Where it was found.
    pub from: EvidenceSource,
    /// What was found.
    pub what: String,
    /// Its weight: for mutability, a positive weight means a change. `None` if a rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// Where evidence was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EvidenceSource {
    /// The name.
    Name,
    /// The title.
    Title,
    /// The description.
    Description,
    /// A parameter.
    Parameter,
    /// The output schema.
    Output,
    /// The author's hints.
    Annotation,
    /// A rule of caution.
    Rule,
    /// Nothing: a default.
    Default,
}

impl std::fmt::Display for ClassificationReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self.from {
            EvidenceSource::Name => " in its name",
            EvidenceSource::Title => " in its title",
            EvidenceSource::Description => " in its description",
            EvidenceSource::Parameter => " among its arguments",
            EvidenceSource::Output => " in what it returns",
            EvidenceSource::Annotation | EvidenceSource::Rule | EvidenceSource::Default => "",
        };
        // Weighed evidence is a kind of word and the word; the source already tells the kind.
        match self.what.split_once(": ").filter(|_| self.weight.is_some()) {
            Some((_, word)) => write!(formatter, "`{word}`{place}"),
            None => write!(formatter, "{}{place}", self.what),
        }
    }
}

impl ClassificationReason {
    pub(super) fn new(from: EvidenceSource, what: impl Into<String>) -> Self {
        Self { from, what: what.into(), weight: None }
    }

    pub(super) fn from_caution(caution: &Caution) -> Self {
        let word = if caution.word.is_empty() { String::new() } else { format!(" (`{}`)", caution.word) };
        Self::new(EvidenceSource::Rule, format!("{}{word}", caution.rule.sentence()))
    }

    pub(super) fn from_feature((kind, word): &Feature, weight: f64) -> Self {
        let weight = (weight * 100.0).round() / 100.0;
        Self { from: source(*kind), what: format!("{}: {word}", kind.word()), weight: Some(weight) }
    }
}

fn source(kind: FeatureKind) -> EvidenceSource {
    match kind {
        FeatureKind::NameVerb
        | FeatureKind::NameClass
        | FeatureKind::NamePlace
        | FeatureKind::NameOther
        | FeatureKind::NameFirst
        | FeatureKind::NameLast
        | FeatureKind::NameWord
        | FeatureKind::NameObject
        | FeatureKind::NameLead => EvidenceSource::Name,
        FeatureKind::TitleLead | FeatureKind::TitleClass => EvidenceSource::Title,
        FeatureKind::Parameter
        | FeatureKind::ParameterWord
        | FeatureKind::RequiredWord
        | FeatureKind::ParameterTo
        | FeatureKind::ParameterText
        | FeatureKind::Value
        | FeatureKind::Shape => EvidenceSource::Parameter,
        FeatureKind::Output => EvidenceSource::Output,
        _ => EvidenceSource::Description,
    }
}
