//! The learnt weights: their file, and the sum over a descriptor's features. `docs/classifier.md` says where they come from.

use std::{collections::HashMap, sync::LazyLock};

use super::features::{Feature, FeatureKind, KINDS};

/// How many units of the file make one.
const UNIT: f64 = 100.0;

/// The weights that ship.
static SHIPPED: LazyLock<ClassifierModel> = LazyLock::new(|| ClassifierModel::parse(include_str!("data/weights.tsv")));

/// The weights that ship with this build.
pub(super) fn shipped() -> &'static ClassifierModel {
    &SHIPPED
}

/// Two weights per feature: for descriptors with names, and for those without. A positive weight means a change.
#[derive(Debug, Default)]
pub struct ClassifierModel {
    bias: WeightPair,
    weights: HashMap<FeatureKind, HashMap<String, WeightPair>>,
}

/// A weight with names and one without.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WeightPair {
    /// If names are read.
    pub named: f64,
    /// If names are withheld.
    pub unnamed: f64,
}

impl WeightPair {
    fn select(self, names: bool) -> f64 {
        if names { self.named } else { self.unnamed }
    }
}

impl ClassifierModel {
    /// Parses the file's text: kind, word, weight with names, weight without, in hundredths, separated by tabs. A line that
    /// cannot be parsed is left out: the bias leans towards a change, so a missing weight alone never makes a tool look safer.
    pub fn parse(text: &str) -> Self {
        let mut model = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut fields = line.split('\t');
            let (Some(kind), Some(word), Some(named), Some(unnamed)) =
                (fields.next(), fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let (Ok(named), Ok(unnamed)) = (named.parse::<i32>(), unnamed.parse::<i32>()) else { continue };
            let pair = WeightPair { named: f64::from(named) / UNIT, unnamed: f64::from(unnamed) / UNIT };
            if kind == "bias" {
                model.bias = pair;
            } else if let Some((kind, _)) = KINDS.iter().find(|(_, known)| *known == kind) {
                model.weights.entry(*kind).or_default().insert(word.to_owned(), pair);
            }
        }
        model
    }

    /// The file's text for some weights, in the order of the file: kinds as declared, words alphabetically.
    pub fn render(bias: WeightPair, weights: &[(Feature, WeightPair)], heading: &str) -> String {
        let units = |weight: f64| format!("{:.0}", weight * UNIT).parse::<i32>().unwrap_or(0);
        let line = |kind: &str, word: &str, pair: WeightPair| {
            format!("{kind}\t{word}\t{}\t{}\n", units(pair.named), units(pair.unnamed))
        };
        let mut sorted: Vec<&(Feature, WeightPair)> = weights.iter().collect();
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        let comment = |sentence: &str| ["# ", sentence, "\n"].concat();
        let mut text = heading.lines().map(comment).collect::<String>();
        text += &line("bias", "", bias);
        for ((kind, word), pair) in sorted {
            if units(pair.named) != 0 || units(pair.unnamed) != 0 {
                text += &line(kind.word(), word, *pair);
            }
        }
        text
    }

    /// The sum, and what each known feature contributed. A sum above zero means a change.
    pub(super) fn score<'a>(&self, features: &'a [Feature], names: bool) -> (f64, Vec<(&'a Feature, f64)>) {
        let contributions: Vec<(&Feature, f64)> = features
            .iter()
            .filter_map(|feature| {
                let weight = self.weights.get(&feature.0)?.get(&feature.1)?.select(names);
                (weight != 0.0).then_some((feature, weight))
            })
            .collect();
        (self.bias.select(names) + contributions.iter().map(|(_, weight)| weight).sum::<f64>(), contributions)
    }
}
