//! Everything that is wrong with a value, sorted by gate: structure, types, bounds.
//!
//! `group` decides which gate an error belongs to, and `field_errors` words it.

use std::cmp::Reverse;

use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::{field_errors, group::FindingGroup, members::ReferenceResolver, suggestions::ComparisonBudget};
use crate::FieldError;

/// Errors per gate that are reported; the rest are counted, because a longer list would not help.
const ERRORS_MAX: usize = 64;

/// Errors of one group that are examined in detail. Further errors only count for their gate, so that a value with thousands of
/// mistakes takes little time.
const LOOKED_AT_MAX: usize = 4 * ERRORS_MAX;

/// Everything wrong with a value, by the gate that refuses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Missing, unknown or misplaced fields.
    pub structure: Vec<FieldError>,
    /// Wrong types.
    pub types: Vec<FieldError>,
    /// Values outside their limits.
    pub bounds: Vec<FieldError>,
}

/// Findings while they are collected, before the limit is applied.
#[derive(Default)]
struct FindingCollector {
    found: Vec<(FindingGroup, FieldError)>,
    /// Members that are declared by a part of the schema that does not apply. They are errors only if nothing else explains why
    /// the part does not apply.
    unexplained: Vec<(String, FieldError)>,
    /// How many were found, by group, reported or not.
    counts: [usize; 3],
    /// How many errors were examined, by group, so that many errors in one group do not hide those in another.
    looked_at: [usize; 3],
    /// The comparisons left for suggestions.
    allowance: ComparisonBudget,
}

impl Findings {
    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.structure.is_empty() && self.types.is_empty() && self.bounds.is_empty()
    }

    /// All findings, in the order of the gates.
    pub fn into_all(self) -> Vec<FieldError> {
        self.structure.into_iter().chain(self.types).chain(self.bounds).collect()
    }

    fn lists(&mut self) -> [&mut Vec<FieldError>; 3] {
        [&mut self.structure, &mut self.types, &mut self.bounds]
    }

    pub(super) fn collect<'a>(errors: impl Iterator<Item = ValidationError<'a>>, schema: &Value) -> Self {
        let mut collection = FindingCollector::default();
        errors.for_each(|error| collection.add(&error, schema));
        collection.into_findings()
    }
}

impl FindingCollector {
    fn add(&mut self, error: &ValidationError<'_>, schema: &Value) {
        let at = error.instance_path().as_str();
        let group = FindingGroup::from_kind(error.kind());
        let looked_at = of_group(&mut self.looked_at, group);
        *looked_at += 1;
        if *looked_at > LOOKED_AT_MAX {
            *of_group(&mut self.counts, group) += 1;
            return;
        }
        match error.kind() {
            Kind::Required { property } => {
                self.push(group, |allowance| field_errors::missing(at, property, error, schema, allowance));
            }
            Kind::AdditionalProperties { unexpected } => {
                let known = known_names(error, schema);
                for name in unexpected {
                    self.push(group, |allowance| field_errors::unknown(at, name, &known, allowance));
                }
            }
            Kind::UnevaluatedProperties { unexpected } => self.unevaluated(at, unexpected, &known_names(error, schema)),
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => self.alternatives(context, at, error, schema),
            _ => self.push(group, |allowance| field_errors::describe(at, error, schema, allowance)),
        }
    }

    /// A part that fails evaluates nothing, so the library reports its members as unevaluated. That is a consequence of the
    /// failure, which is reported anyway, and not a second mistake.
    fn unevaluated(&mut self, at: &str, unexpected: &[String], known: &[String]) {
        for name in unexpected {
            // The names come from a sorted set.
            if known.binary_search(name).is_err() {
                self.push(FindingGroup::Structure, |allowance| field_errors::unknown(at, name, known, allowance));
            } else if self.unexplained.len() < ERRORS_MAX {
                self.unexplained.push((at.to_owned(), field_errors::misplaced(at, name)));
            }
        }
    }

    /// If all alternatives failed, reports the one that got furthest, because it was most likely meant.
    fn alternatives(
        &mut self,
        context: &[Vec<ValidationError<'static>>],
        at: &str,
        error: &ValidationError<'_>,
        schema: &Value,
    ) {
        if let Some(finding) = field_errors::no_such_type(context, at, error, schema) {
            self.push(FindingGroup::Types, |_| finding);
            return;
        }
        let best = context.iter().filter(|errors| !errors.is_empty()).max_by_key(|errors| likeness(errors, at));
        let mut branch = Self { allowance: std::mem::take(&mut self.allowance), ..Self::default() };
        best.into_iter().flatten().for_each(|error| branch.add(error, schema));
        let findings = branch.settled();
        *of_group(&mut self.looked_at, FindingGroup::Structure) += branch.looked_at.iter().sum::<usize>();
        self.allowance = branch.allowance;
        if findings.is_empty() {
            self.push(FindingGroup::Structure, |_| field_errors::no_alternative(at, context.len()));
        }
        for (group, mut finding) in findings {
            if context.len() > 1 {
                finding.expected = format!("one of {} alternatives: {}", context.len(), finding.expected);
            }
            self.push(group, |_| finding);
        }
    }

    /// Reports a finding, or only counts it if the limit is reached.
    fn push(&mut self, group: FindingGroup, tell: impl FnOnce(&mut ComparisonBudget) -> FieldError) {
        let count = of_group(&mut self.counts, group);
        if *count < ERRORS_MAX {
            let finding = tell(&mut self.allowance);
            self.found.push((group, finding));
        }
        *count += 1;
    }

    /// The findings, including the members that nothing else explains.
    fn settled(&mut self) -> Vec<(FindingGroup, FieldError)> {
        for (at, finding) in std::mem::take(&mut self.unexplained) {
            let inside = format!("{at}/");
            let explains = |pointer: &str| pointer == at || pointer.starts_with(&inside);
            let explained = self.found.iter().any(|(_, other)| explains(&other.pointer));
            if !explained {
                self.push(FindingGroup::Structure, |_| finding);
            }
        }
        std::mem::take(&mut self.found)
    }

    fn into_findings(mut self) -> Findings {
        let mut findings = Findings::default();
        for (group, finding) in self.settled() {
            match group {
                FindingGroup::Structure => findings.structure.push(finding),
                FindingGroup::Types => findings.types.push(finding),
                FindingGroup::Bounds => findings.bounds.push(finding),
            }
        }
        for (count, list) in self.counts.into_iter().zip(findings.lists()) {
            // Sorted here, because the library promises no order, and a chain of repairs is followed by its errors.
            list.sort_by(|one, other| one.pointer.cmp(&other.pointer));
            if count > list.len() {
                list.push(field_errors::omitted(count - list.len()));
            }
        }
        findings
    }
}

fn of_group(counts: &mut [usize; 3], group: FindingGroup) -> &mut usize {
    let [structure, types, bounds] = counts;
    match group {
        FindingGroup::Structure => structure,
        FindingGroup::Types => types,
        FindingGroup::Bounds => bounds,
    }
}

/// How close a value is to an alternative: first the right type, then the right kind (`const`, `enum`), then more gates passed,
/// then fewer errors.
fn likeness(errors: &[ValidationError<'static>], at: &str) -> (bool, bool, FindingGroup, Reverse<usize>) {
    let right_type = !errors.iter().any(|error| {
        matches!(error.kind(), Kind::Type { .. } | Kind::FalseSchema) && error.instance_path().as_str() == at
    });
    let right_kind = !errors.iter().any(|error| matches!(error.kind(), Kind::Constant { .. } | Kind::Enum { .. }));
    let first = errors.iter().map(|error| FindingGroup::from_kind(error.kind())).min().unwrap_or(FindingGroup::Bounds);
    (right_type, right_kind, first, Reverse(errors.len()))
}

fn known_names(error: &ValidationError<'_>, schema: &Value) -> Vec<String> {
    let names = field_errors::parent_schema(error, schema)
        .map(|parent| ReferenceResolver(schema).declared_members(parent).names);
    names.unwrap_or_default().into_iter().collect()
}
