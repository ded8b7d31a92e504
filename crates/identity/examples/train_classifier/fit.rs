//! One fit: which features count, how much each example counts, and the model's text at the end.

use std::collections::{BTreeMap, BTreeSet};

use servanda_identity::classifier::training::{ClassifierModel, Feature, FeatureKind, WeightPair};

use crate::{
    corpus::{self, Tool},
    regression::{self, Example},
};

/// In how many families of servers a feature must occur. A feature shared by two servers may be chance.
const FAMILIES_MIN: usize = 4;
/// How many features are kept per view.
const FEATURES_MAX: usize = 3_000;
/// The inverse of the penalty on large weights.
const STRENGTH: f64 = 0.2;
/// Passes over the examples.
const ROUNDS: usize = 30;
/// The weight of a label that the rules of caution contradict: an author who calls `create_x` read-only.
const DOUBTFUL: f64 = 0.25;
/// Added to every sum, so that an uncertain tool counts as a change. Chosen on held-out families.
const LEAN: WeightPair = WeightPair { named: 1.25, unnamed: 1.0 };

/// A tool with everything that training needs.
pub(crate) struct Prepared<'a> {
    pub(crate) tool: &'a Tool,
    pub(crate) mutates: Option<bool>,
    pub(crate) named: Vec<Feature>,
    pub(crate) unnamed: Vec<Feature>,
    pub(crate) doubtful: bool,
}

/// Learns from the chosen tools and returns the model's text.
pub(crate) fn fit(tools: &[Prepared<'_>], chosen: &[usize], heading: &str) -> String {
    let (named_bias, named) = view(tools, chosen, |tool| &tool.named);
    let (unnamed_bias, unnamed) = view(tools, chosen, |tool| &tool.unnamed);
    let bias = WeightPair { named: named_bias + LEAN.named, unnamed: unnamed_bias + LEAN.unnamed };
    let mut weights: BTreeMap<Feature, WeightPair> = BTreeMap::new();
    for (feature, weight) in named {
        weights.entry(feature).or_default().named = weight;
    }
    for (feature, weight) in unnamed {
        weights.entry(feature).or_default().unnamed = weight;
    }
    let weights: Vec<(Feature, WeightPair)> = weights.into_iter().collect();
    ClassifierModel::render(bias, &weights, heading)
}

fn view(
    tools: &[Prepared<'_>],
    chosen: &[usize],
    features: for<'a> fn(&'a Prepared<'_>) -> &'a Vec<Feature>,
) -> (f64, Vec<(Feature, f64)>) {
    let mut seen: BTreeMap<&Feature, BTreeSet<&str>> = BTreeMap::new();
    for &at in chosen {
        for feature in features(&tools[at]) {
            seen.entry(feature).or_default().insert(&tools[at].tool.family);
        }
    }
    let common: Vec<&Feature> =
        seen.iter().filter(|(_, families)| families.len() >= FAMILIES_MIN).map(|(feature, _)| *feature).collect();
    let weights = learn(tools, chosen, features, &common);
    let mut order: Vec<usize> = (0..common.len()).collect();
    let force = |at: usize| weights[at + 1].abs() * scale(common[at].0);
    order.sort_by(|one, other| force(*other).total_cmp(&force(*one)).then(one.cmp(other)));
    order.truncate(FEATURES_MAX);
    order.sort_unstable();
    let kept: Vec<&Feature> = order.into_iter().map(|at| common[at]).collect();
    let weights = learn(tools, chosen, features, &kept);
    let found =
        kept.iter().enumerate().map(|(at, feature)| ((*feature).clone(), weights[at + 1] * scale(feature.0))).collect();
    (weights[0], found)
}

fn learn(
    tools: &[Prepared<'_>],
    chosen: &[usize],
    features: for<'a> fn(&'a Prepared<'_>) -> &'a Vec<Feature>,
    kept: &[&Feature],
) -> Vec<f64> {
    let numbers: BTreeMap<&Feature, usize> = kept.iter().enumerate().map(|(at, feature)| (*feature, at + 1)).collect();
    let weigh = weigher(tools, chosen);
    let examples: Vec<Example> = chosen
        .iter()
        .filter_map(|&at| {
            let known =
                features(&tools[at]).iter().filter_map(|feature| Some((*numbers.get(feature)?, scale(feature.0))));
            let features = std::iter::once((0, 1.0)).chain(known).collect();
            Some(Example { features, positive: tools[at].mutates?, weight: weigh(&tools[at]) })
        })
        .collect();
    regression::learn(&examples, kept.len() + 1, STRENGTH, ROUNDS)
}

/// A server of four hundred tools counts more than one of four, but not a hundred times more; copies count as one.
fn weigher<'a>(tools: &'a [Prepared<'_>], chosen: &[usize]) -> impl Fn(&Prepared<'_>) -> f64 + use<'a> {
    let mut copies: BTreeMap<String, f64> = BTreeMap::new();
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for &at in chosen {
        *copies.entry(corpus::likeness(tools[at].tool)).or_default() += 1.0;
        *sizes.entry(&tools[at].tool.server).or_default() += 1.0;
    }
    move |tool| {
        let doubt = if tool.doubtful { DOUBTFUL } else { 1.0 };
        3.0 * doubt / sizes[tool.tool.server.as_str()].sqrt() / copies[&corpus::likeness(tool.tool)]
    }
}

/// How large the weight of a kind of feature may be: a verb's class is general, a word of a long description is chance.
fn scale(kind: FeatureKind) -> f64 {
    match kind {
        FeatureKind::NameClass
        | FeatureKind::LeadClass
        | FeatureKind::NameLead
        | FeatureKind::NameVerb
        | FeatureKind::Lead
        | FeatureKind::Says
        | FeatureKind::NamePlace
        | FeatureKind::NameOther => 1.0,
        FeatureKind::ThenWord | FeatureKind::ParameterText | FeatureKind::Output => 0.3,
        FeatureKind::FirstWord | FeatureKind::NameWord | FeatureKind::ParameterWord => 0.5,
        _ => 0.7,
    }
}
