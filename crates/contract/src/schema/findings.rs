//! What is wrong with a value, sorted by gate: structure, types, bounds.
//!
//! Which gate an error belongs to is decided by `group`, and how it is told by `telling`.

use std::cmp::Reverse;

use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use super::{field_errors, group::FindingGroup, members::ReferenceResolver, suggestions::ComparisonBudget};
use crate::FieldError;

/// More errors of one gate than this teach nobody anything; the rest are counted.
const ERRORS_MAX: usize = 64;

/// Errors of one group that are looked at in detail. Further errors only count for their gate, so that a value with thousands of mistakes
/// takes little time.
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

/// Findings on their way, before the limit.
#[derive(Default)]
struct FindingCollector {
    found: Vec<(FindingGroup, FieldError)>,
    /// Members that are declared, but by a part of the schema that does not apply: an error of their own only where
    /// nothing else explains why the part does not apply.
    unexplained: Vec<(String, FieldError)>,
    /// How many were found, by group, told or not.
    counts: [usize; 3],
    /// How many errors were looked at, by group, so that many errors in one group do not hide those in another.
    looked_at: [usize; 3],
    /// The comparisons left for suggestions.
    allowance: ComparisonBudget,
}

impl Findings {
    /// Whether there is nothing wrong.
    pub fn is_empty(&self) -> bool {
        self.structure.is_empty() && self.types.is_empty() && self.bounds.is_empty()
    }

    /// All of them, in the order of the gates.
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

    /// A part that fails evaluates nothing, so the library calls its members unevaluated: an effect of the failure, which
    /// is told anyway, and not a second mistake.
    fn unevaluated(&mut self, at: &str, unexpected: &[String], known: &[String]) {
        for name in unexpected {
            // The names come out of a sorted set.
            if known.binary_search(name).is_err() {
                self.push(FindingGroup::Structure, |allowance| field_errors::unknown(at, name, known, allowance));
            } else if self.unexplained.len() < ERRORS_MAX {
                self.unexplained.push((at.to_owned(), field_errors::misplaced(at, name)));
            }
        }
    }

    /// Of several alternatives that all failed, the one that came furthest says most about what was meant.
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

    /// Tells a finding, or only counts it if enough are told already.
    fn push(&mut self, group: FindingGroup, tell: impl FnOnce(&mut ComparisonBudget) -> FieldError) {
        let count = of_group(&mut self.counts, group);
        if *count < ERRORS_MAX {
            let finding = tell(&mut self.allowance);
            self.found.push((group, finding));
        }
        *count += 1;
    }

    /// The findings with those members that nothing else explains.
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
            // In an order of our own: the library's is not promised, and a chain of repairs is followed by its errors.
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

/// How far a value got with an alternative: not of another type, then of the right kind (`const`, `enum`), then past more
/// gates, then with fewer errors.
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
