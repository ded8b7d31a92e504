//! What the trainer needs from the classifier: the features, the rules, and classification with other weights. The gateway uses
//! nothing of it.

use super::{Classification, ClassifierOptions, Descriptor, caution, features, reading};

pub use super::{
    features::{Feature, FeatureKind},
    model::{ClassifierModel, WeightPair},
};

/// The features of a descriptor.
pub fn features_of(descriptor: &Descriptor, names: bool) -> Vec<Feature> {
    features::extract(&reading::read(descriptor, names))
}

/// The rules of caution that apply to a descriptor.
pub fn cautions_of(descriptor: &Descriptor, names: bool) -> Vec<caution::Caution> {
    caution::find_cautions(&reading::read(descriptor, names))
}

/// Classifies a tool with other weights.
pub fn classify_with(model: &ClassifierModel, descriptor: &Descriptor, options: ClassifierOptions) -> Classification {
    super::classify_with(model, descriptor, options)
}
