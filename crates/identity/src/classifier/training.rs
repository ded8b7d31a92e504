//! What the trainer needs of the classifier: the features, the rules, and classification with weights that do not ship.
//! Nothing here is for the gateway.

use super::{Classification, ClassifierOptions, Descriptor, caution, features, reading};

pub use super::{
    features::{Feature, FeatureKind},
    model::{ClassifierModel, WeightPair},
};

/// The features of a descriptor.
pub fn features_of(descriptor: &Descriptor, names: bool) -> Vec<Feature> {
    features::extract(&reading::read(descriptor, names))
}

/// The cautions a descriptor gives rise to.
pub fn cautions_of(descriptor: &Descriptor, names: bool) -> Vec<caution::Caution> {
    caution::find_cautions(&reading::read(descriptor, names))
}

/// Classifies a tool with other weights.
pub fn classify_with(model: &ClassifierModel, descriptor: &Descriptor, options: ClassifierOptions) -> Classification {
    super::classify_with(model, descriptor, options)
}
