//! JSON Schema as Servanda enforces it: 2020-12 (draft-07 and 2019-09 when `$schema` says so), objects closed unless they say
//! otherwise, `format` asserted, defaults applied, linear-time regexes only, and never a `$ref` that leaves the document. A
//! schema is compiled once, then shared; a dormant schema keeps what it needs to be compiled again.
//!
//! The library behind it is wrapped here and nowhere else, because its interface still changes.

mod closing;
mod defaults;
mod expansion;
mod field_errors;
mod findings;
mod group;
mod lazy_validator;
mod members;
mod patterns;
mod references;
mod suggestions;
#[cfg(test)]
mod tests;
mod validation_cost;

use std::{collections::BTreeSet, sync::OnceLock};

use jsonschema::{Draft, PatternOptions, Registry, RegistryBuilder, Validator, error::ValidationErrorKind as Kind};
use serde_json::{Map, Value};

pub use field_errors::type_name;
pub use findings::Findings;

use self::lazy_validator::EffectiveSchema;
use crate::shared::SchemaDocument;

/// The largest size of a compiled regular expression.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A schema that can validate values: the type proves that it compiles.
#[derive(Debug)]
pub struct CompiledSchema {
    written: SchemaDocument,
    profile: SchemaProfile,
    effective: EffectiveSchema,
    has_defaults: bool,
    /// `None` if no value can take long to validate.
    cost: Option<validation_cost::ValidationCost>,
    /// Built when the first value is validated. `None` inside if that failed, although the schema compiled before.
    compiled: OnceLock<Option<CompiledValidator>>,
}

/// The compiled validator. It has many times the size of the schema's text.
#[derive(Debug)]
struct CompiledValidator {
    effective: Value,
    validator: Validator,
}

/// Shown for a schema that cannot be compiled again: it accepts no value.
static NOTHING: Value = Value::Bool(false);

/// Why a schema cannot be enforced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A dialect that Servanda does not support.
    #[error("`$schema` names `{dialect}`; the dialects are 2020-12, 2019-09 and draft-07")]
    Dialect {
        /// The dialect's name.
        dialect: String,
    },
    /// The root describes something other than an object.
    #[error("the root must have `\"type\": \"object\"`: arguments are always an object")]
    RootNotObject,
    /// A schema that applies itself to the same value.
    #[error("`{location}` of the schema refers to itself without going deeper into the value, so it has no meaning")]
    Endless {
        /// Where in the schema.
        location: String,
    },
    /// References that multiply.
    #[error("the schema unfolds to more than {unfolded_max} schemas for one value")]
    Unfolds {
        /// The limit.
        unfolded_max: u64,
    },
    /// A pattern that the linear-time engine does not support.
    #[error(
        "the pattern `{pattern}` is refused: not a regular expression that is matched in linear time and bounded memory \
         (no look-around, no back-references, no huge repetitions) (at `{location}` of the schema)"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// Where in the schema.
        location: String,
    },
    /// More referenced places than the library can follow.
    #[error("the schema refers to more than {places_max} places of its own: inline definitions that are used once")]
    References {
        /// The limit.
        places_max: usize,
    },
    /// Patterns that take too long to compile.
    #[error(
        "the patterns are too long, each counted once for every escape in it: write ranges such as `[0-9]` for `\\d`, or \
         shorter patterns"
    )]
    Patterns,
    /// Not a schema, or a schema with a reference to another document.
    #[error("{reason}{}", place(location))]
    Invalid {
        /// The library's reason.
        reason: String,
        /// Where in the schema.
        location: String,
    },
}

/// How a schema is interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaProfile {
    /// Arguments: objects closed by default, formats asserted, an object at the root.
    Arguments,
    /// Results: as written, formats asserted.
    Results,
    /// The dialect's own rules, formats as annotations: for testing the library against the public suite.
    Dialect,
}

impl CompiledSchema {
    /// Compiles a schema for `profile`.
    pub fn compile(schema: &Map<String, Value>, profile: SchemaProfile) -> Result<Self, SchemaError> {
        Self::compile_document(&schema.clone().into(), profile)
    }

    /// Compiles a schema that a contract or a definition holds, without copying it.
    pub fn compile_document(written: &SchemaDocument, profile: SchemaProfile) -> Result<Self, SchemaError> {
        let draft = dialect(written)?;
        let mut effective = Value::Object((**written).clone());
        if profile != SchemaProfile::Dialect {
            references::localize(&mut effective)?;
        }
        patterns::check(&effective)?;
        expansion::check(&effective)?;
        if profile == SchemaProfile::Arguments {
            root_object(&mut effective)?;
            closing::close_objects(&mut effective, draft != Draft::Draft7);
            drop_broken_defaults(&mut effective, draft)?;
        }
        let growth = if profile == SchemaProfile::Dialect {
            None
        } else {
            validation_cost::ValidationCost::measure(&effective, &effective)?
        };
        let ready = CompiledValidator::build(effective, profile, None)?;
        Ok(Self { cost: growth, ..Self::ready_made(written.clone(), profile, ready) })
    }

    /// Compiles a schema that may refer to `known` documents by their URI. Nothing is ever fetched.
    pub fn compile_with(
        schema: &Value,
        profile: SchemaProfile,
        known: &jsonschema::Registry<'_>,
    ) -> Result<Self, SchemaError> {
        let written = schema.as_object().cloned().unwrap_or_default();
        Ok(Self::ready_made(written.into(), profile, CompiledValidator::build(schema.clone(), profile, Some(known))?))
    }

    /// The schema as it is enforced, closed objects included: what callers are shown.
    pub fn effective(&self) -> &Value {
        self.compiled_validator().map_or(&NOTHING, |ready| &ready.effective)
    }

    /// Whether a valid object may have a member of this name.
    pub fn may_have(&self, name: &str) -> bool {
        Self::schema_may_have(self.effective(), name)
    }

    /// The same for an enforced schema.
    pub fn schema_may_have(effective: &Value, name: &str) -> bool {
        let closed = |keyword: &str| effective.get(keyword) == Some(&Value::Bool(false));
        let declared = members::ReferenceResolver(effective).declared_members(effective);
        let open = !closed("additionalProperties") && !closed("unevaluatedProperties");
        // A pattern may match any name; checking that is not worth a second regex engine.
        open || !declared.patterns.is_empty() || declared.names.contains(name)
    }

    /// Whether the schema names this member anywhere.
    pub fn declares(&self, name: &str) -> bool {
        members::ReferenceResolver(self.effective()).declared_members(self.effective()).names.contains(name)
    }

    /// Fills in the defaults of absent properties.
    pub fn apply_defaults(&self, value: &mut Value) {
        // A value that is too costly to validate gets no defaults either, because that takes the same steps.
        if self.has_defaults && self.check_cost(value).is_ok() {
            let depth_max = self.cost.as_ref().and_then(validation_cost::ValidationCost::depth_max);
            defaults::apply(self.effective(), value, depth_max);
        }
    }

    /// Everything wrong with a value, sorted by the gate it belongs to.
    pub fn judge(&self, value: &Value) -> Findings {
        if let Err(beyond) = self.check_cost(value) {
            return Findings { structure: vec![field_errors::too_costly(beyond)], ..Findings::default() };
        }
        let Some(ready) = self.compiled_validator() else {
            return Findings { structure: vec![field_errors::unusable()], ..Findings::default() };
        };
        if ready.validator.is_valid(value) {
            return Findings::default();
        }
        Findings::collect(ready.validator.iter_errors(value), &ready.effective)
    }

    /// Whether a value is valid.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.check_cost(value).is_ok() && self.compiled_validator().is_some_and(|ready| ready.validator.is_valid(value))
    }

    /// Whether a value is cheap enough to be validated.
    fn check_cost(&self, value: &Value) -> Result<(), validation_cost::CostExceeded> {
        self.cost.as_ref().map_or(Ok(()), |growth| growth.check(value))
    }

    fn ready_made(written: SchemaDocument, profile: SchemaProfile, ready: CompiledValidator) -> Self {
        let has_defaults = !defaults::find(&ready.effective).is_empty();
        let ready = OnceLock::from(Some(ready));
        Self { written, profile, effective: EffectiveSchema::InValidator, has_defaults, cost: None, compiled: ready }
    }
}

impl CompiledValidator {
    fn build(
        effective: Value,
        profile: SchemaProfile,
        known: Option<&jsonschema::Registry<'_>>,
    ) -> Result<Self, SchemaError> {
        let mut options = options(profile);
        if profile != SchemaProfile::Dialect {
            let draft = effective.as_object().map_or(Ok(Draft::Draft202012), dialect)?;
            options = options.with_draft(draft);
        }
        if let Some(known) = known {
            options = options.with_registry(known);
        }
        let validator = options.build(&effective).map_err(|error| invalid(&error))?;
        Ok(Self { effective, validator })
    }
}

fn place(location: &str) -> String {
    if location.is_empty() { String::new() } else { format!(" (at `{location}` of the schema)") }
}

fn options(profile: SchemaProfile) -> jsonschema::ValidationOptions<'static> {
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES_MAX))
        .should_validate_formats(profile != SchemaProfile::Dialect)
        .with_format("regex", patterns::is_pattern)
        .should_ignore_unknown_formats(true)
}

fn invalid(error: &jsonschema::ValidationError<'_>) -> SchemaError {
    // For a schema that breaks its meta-schema, the schema itself is the instance. Other errors have only a place in the
    // schema.
    let path = if error.instance_path().is_empty() { error.schema_path() } else { error.instance_path() };
    let location = path.as_str().to_owned();
    let is_pattern = location.ends_with("/pattern") || location.contains("/patternProperties");
    match (error.kind(), error.instance().as_str()) {
        (Kind::Format { format }, Some(pattern)) if format == "regex" && is_pattern => {
            SchemaError::Pattern { pattern: pattern.to_owned(), location }
        }
        _ => SchemaError::Invalid { reason: error.to_string(), location },
    }
}

/// The protocol requires `"type": "object"` at the root. If it is missing, it is added: arguments are always an object, so
/// nothing else can be meant, and callers see what is expected.
fn root_object(effective: &mut Value) -> Result<(), SchemaError> {
    let Some(root) = effective.as_object_mut() else { return Err(SchemaError::RootNotObject) };
    let named = root.entry("type").or_insert_with(|| Value::from("object"));
    if *named == "object" { Ok(()) } else { Err(SchemaError::RootNotObject) }
}

/// Removes defaults that their own schemas refuse.
fn drop_broken_defaults(effective: &mut Value, draft: Draft) -> Result<(), SchemaError> {
    const BASE: &str = "servanda:schema";
    let mut found = defaults::find(effective);
    // Checking a default can be costly too, and the schema's author controls it.
    for (pointer, default) in
        found.extract_if(.., |(_, default)| default.is_object() || default.is_array()).collect::<Vec<_>>()
    {
        let Some(schema) = effective.pointer(&pointer) else { continue };
        let growth = validation_cost::ValidationCost::measure(schema, effective)?;
        if growth.is_none_or(|growth| growth.check(&default).is_ok()) {
            found.push((pointer, default));
        } else {
            defaults::drop_at(effective, &pointer);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let unusable = |error: jsonschema::ReferencingError| SchemaError::Invalid {
        reason: error.to_string(),
        location: String::new(),
    };
    let (trial, values) = defaults::trial(BASE, &found);
    let document = draft.create_resource(effective.clone());
    let known = Registry::new().add(BASE, document).and_then(RegistryBuilder::prepare).map_err(unusable)?;
    let options = options(SchemaProfile::Arguments).with_draft(draft).with_registry(&known);
    let validator = options.build(&trial).map_err(|error| invalid(&error))?;
    let broken: BTreeSet<usize> = validator.iter_errors(&values).filter_map(|error| first_step(&error)).collect();
    for (pointer, _) in broken.into_iter().filter_map(|position| found.get(position)) {
        defaults::drop_at(effective, pointer);
    }
    Ok(())
}

/// The array position or numbered member that an error is at or under.
fn first_step(error: &jsonschema::ValidationError<'_>) -> Option<usize> {
    error.instance_path().as_str().split('/').nth(1)?.parse().ok()
}

fn dialect(schema: &Map<String, Value>) -> Result<Draft, SchemaError> {
    let Some(named) = schema.get("$schema") else {
        return Ok(Draft::Draft202012);
    };
    let named = named.as_str().unwrap_or("(not a string)");
    match named.trim_end_matches('#').split_once("://").map(|(_, rest)| rest) {
        Some("json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("json-schema.org/draft/2019-09/schema") => Ok(Draft::Draft201909),
        Some("json-schema.org/draft-07/schema") => Ok(Draft::Draft7),
        _ => Err(SchemaError::Dialect { dialect: named.to_owned() }),
    }
}
