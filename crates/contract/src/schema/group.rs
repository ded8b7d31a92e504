//! Which gate a schema error belongs to: structure, types or bounds.

use jsonschema::error::ValidationErrorKind as Kind;

/// The gate a finding belongs to, in the order of the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingGroup {
    Structure,
    Types,
    Bounds,
}

impl FindingGroup {
    /// The gate of an error kind that is reported by itself.
    pub(super) fn from_kind(kind: &Kind) -> Self {
        match kind {
            Kind::Required { .. }
            | Kind::AdditionalProperties { .. }
            | Kind::UnevaluatedProperties { .. }
            | Kind::AnyOf { .. }
            | Kind::OneOfNotValid { .. }
            | Kind::OneOfMultipleValid { .. }
            | Kind::UnevaluatedItems { .. }
            | Kind::AdditionalItems { .. }
            | Kind::FalseSchema
            | Kind::PropertyNames { .. } => Self::Structure,
            Kind::Type { .. } => Self::Types,
            // Kinds that the library adds later are refused at the last of the three gates.
            _ => Self::Bounds,
        }
    }
}
