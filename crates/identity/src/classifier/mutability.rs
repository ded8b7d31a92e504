//! Whether a tool changes anything: by the sum of the weights, unless a rule of caution or the author's own warning already
//! says so.

use servanda_contract::tool::Mutability;

use super::{
    Annotations,
    caution::{self, Caution},
    evidence::{ClassificationReason, EvidenceSource},
    features,
    model::ClassifierModel,
    reading::DescriptorReading,
};

/// How many weighed features the evidence names.
const REASONS_MAX: usize = 6;
/// The confidence of a rule that the weights contradict.
const RULE_CONFIDENCE_MIN: f64 = 0.6;

/// A decision with its reasons.
#[derive(Debug)]
pub(super) struct MutabilityJudgement {
    pub(super) mutability: Mutability,
    pub(super) confidence: f64,
    pub(super) reasons: Vec<ClassificationReason>,
    pub(super) cautions: Vec<Caution>,
}

/// Decides. A hint can only raise danger: `readOnlyHint: true` is ignored.
pub(super) fn judge(
    model: &ClassifierModel,
    reading: &DescriptorReading,
    names: bool,
    hints: Option<Annotations>,
) -> MutabilityJudgement {
    let features = features::extract(reading);
    let (score, mut contributions) = model.score(&features, names);
    contributions.sort_by(|(_, one), (_, other)| other.abs().total_cmp(&one.abs()));
    let cautions = caution::find_cautions(reading);
    let mut reasons: Vec<ClassificationReason> = cautions.iter().map(ClassificationReason::from_caution).collect();
    reasons.extend(hints.and_then(warning));
    let forced = !reasons.is_empty();
    reasons.extend(
        contributions
            .into_iter()
            .take(REASONS_MAX)
            .map(|(feature, weight)| ClassificationReason::from_feature(feature, weight)),
    );
    let probability = 1.0 / (1.0 + (-score).exp());
    let (mutability, confidence) = match (forced, score > 0.0) {
        (_, true) => (Mutability::Mutates, probability),
        (true, false) => (Mutability::Mutates, RULE_CONFIDENCE_MIN.max(probability)),
        (false, false) => (Mutability::Pure, 1.0 - probability),
    };
    MutabilityJudgement { mutability, confidence, reasons, cautions }
}

/// The author's hint that the tool changes something, if there is one.
fn warning(hints: Annotations) -> Option<ClassificationReason> {
    if hints.read_only_hint == Some(false) {
        return Some(ClassificationReason::new(EvidenceSource::Annotation, "its author says it is not read-only"));
    }
    let destroys = hints.destructive_hint == Some(true) && hints.read_only_hint.is_none();
    destroys.then(|| ClassificationReason::new(EvidenceSource::Annotation, "its author says it may destroy"))
}
