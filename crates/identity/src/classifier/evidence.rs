//! What a classification stands on, in words and numbers a person can check. It decides nothing.

use serde::Serialize;

use super::{
    caution::Caution,
    features::{Feature, Kind},
};

/// One reason for one field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// Where it was found.
    pub from: Source,
    /// What was found.
    pub what: String,
    /// How much it counts: for mutability, positive speaks for a change. Nothing where a rule decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

/// Where evidence was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
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

impl std::fmt::Display for Reason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match self.from {
            Source::Name => " in its name",
            Source::Title => " in its title",
            Source::Description => " in its description",
            Source::Parameter => " among its arguments",
            Source::Output => " in what it returns",
            Source::Annotation | Source::Rule | Source::Default => "",
        };
        // What was weighed is a kind of word and the word; where it stands says enough of the kind.
        match self.what.split_once(": ").filter(|_| self.weight.is_some()) {
            Some((_, word)) => write!(formatter, "`{word}`{place}"),
            None => write!(formatter, "{}{place}", self.what),
        }
    }
}

impl Reason {
    pub(super) fn new(from: Source, what: impl Into<String>) -> Self {
        Self { from, what: what.into(), weight: None }
    }

    pub(super) fn of_caution(caution: &Caution) -> Self {
        let word = if caution.word.is_empty() { String::new() } else { format!(" (`{}`)", caution.word) };
        Self::new(Source::Rule, format!("{}{word}", caution.rule.sentence()))
    }

    pub(super) fn of_feature((kind, word): &Feature, weight: f64) -> Self {
        let weight = (weight * 100.0).round() / 100.0;
        Self { from: source(*kind), what: format!("{}: {word}", kind.word()), weight: Some(weight) }
    }
}

fn source(kind: Kind) -> Source {
    match kind {
        Kind::NameVerb
        | Kind::NameClass
        | Kind::NamePlace
        | Kind::NameOther
        | Kind::NameFirst
        | Kind::NameLast
        | Kind::NameWord
        | Kind::NameObject
        | Kind::NameLead => Source::Name,
        Kind::TitleLead | Kind::TitleClass => Source::Title,
        Kind::Parameter
        | Kind::ParameterWord
        | Kind::RequiredWord
        | Kind::ParameterTo
        | Kind::ParameterText
        | Kind::Value
        | Kind::Shape => Source::Parameter,
        Kind::Output => Source::Output,
        _ => Source::Description,
    }
}
