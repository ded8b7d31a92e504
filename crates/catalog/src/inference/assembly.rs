//! Turns a reading into a whole contract, and a definition that cannot be enforced as it stands into one that can.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use servanda_contract::{
    Digest,
    digest::Domain,
    schema::{CompiledSchema, Profile},
    tool::{
        Action, Affordance, Binding, CostComponents, CostProfile, CostUnit, Effect, EffectClass, EgressPolicy,
        ErrorContract, Execution, Idempotency, Identity, Lifecycle, LifecycleStatus, MutationClass, Observability,
        Overlap, RateLimits, Runtime, SecretsBoundary, Security, SideEffect, SideEffectClass, SideEffectOperation,
        ToolContract, TransactionSemantics, Transactional,
    },
};

use super::{
    duration,
    evidence::{Reach, Reading},
    programs, secrets,
};
use crate::pins::Definition;

/// The longest name a contract may have.
const CONTRACT_NAME_CHARS_MAX: usize = 128;

pub(super) fn assemble(
    upstream: &str,
    definition: &Definition,
    reading: &Reading,
    notes: &mut Vec<String>,
) -> ToolContract {
    let mutates = reading.reach != Reach::ReadOnly;
    let (timeout_class, timeout_ms) = duration::time_limit(definition, reading);
    let data_classification = secrets::classification(definition, reading, notes);
    ToolContract {
        identity: Identity {
            name: contract_name(upstream, &definition.name),
            version: "1.0.0".to_owned(),
            owner: "unassigned".to_owned(),
            lifecycle: Lifecycle { status: LifecycleStatus::Active, sunset_date: None, replacement: None },
        },
        affordance: affordance(definition, reading, notes),
        runtime: Runtime {
            timeout_ms,
            rate_limits: RateLimits { window_sec: 60, max_requests: 600 },
            cost_profile: CostProfile {
                currency: "USD".to_owned(),
                cost_per_call: 0.0,
                cost_unit: CostUnit::Call,
                components: CostComponents::default(),
            },
            sandbox_isolated: false,
            max_retries: 0,
        },
        security: Security {
            required_scopes: vec![format!("{upstream}:{}", if mutates { "write" } else { "read" })],
            tenant_scoped: false,
            secrets_boundary: SecretsBoundary::ExecutionSandbox,
            data_classification,
            egress_policy: egress(definition, reading),
        },
        transactional: Transactional {
            side_effect_class: side_effect_class(reading.reach),
            confirmation_required: false,
            semantics: if mutates { TransactionSemantics::IrreversiblePivot } else { TransactionSemantics::ReadOnly },
            compensation_tool: None,
            post_action_verification_required: false,
        },
        idempotency: Idempotency {
            supported: false,
            required: false,
            key_header: None,
            ttl_seconds: None,
            payload_hash_required: mutates,
            operation_argument: false,
        },
        observability: Observability {
            trace_attributes: ["tool.name", "tool.version", "tool.call_id"].map(str::to_owned).to_vec(),
            audit_required: true,
            error_taxonomy_mapping: BTreeMap::new(),
        },
        error_contract: error_contract(mutates),
        binding: Binding { upstream: upstream.to_owned(), tool: definition.name.clone() },
        execution: Some(Execution { timeout_class, cache_ttl_sec: None, retry: None, poll: None }),
        effect: Some(effect(upstream, reading)),
        behaviour: Some(reading.behaviour.clone()),
        rules: Vec::new(),
        preconditions: Vec::new(),
        probes: None,
        verification: None,
        questions: None,
    }
}

/// A name for the contract; one that had to be changed gets a hash, so that two tools never share one.
fn contract_name(upstream: &str, tool: &str) -> String {
    let wanted = format!("{upstream}.{tool}");
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    if wanted.chars().all(plain) && wanted.len() <= CONTRACT_NAME_CHARS_MAX {
        return wanted;
    }
    let kept: String = wanted.chars().map(|character| if plain(character) { character } else { '_' }).collect();
    let kept: String = kept.chars().take(CONTRACT_NAME_CHARS_MAX - 9).collect();
    format!("{kept}_{}", Digest::of(Domain::Definition, &[wanted.as_bytes()]).hex_prefix(8))
}

fn affordance(definition: &Definition, reading: &Reading, notes: &mut Vec<String>) -> Affordance {
    let mut input_schema = input_schema(&definition.input_schema, notes);
    programs::mark(&mut input_schema, definition, reading, notes);
    Affordance {
        model_description: definition.description.clone().unwrap_or_default(),
        allowed_use_cases: Vec::new(),
        forbidden_use_cases: Vec::new(),
        input_schema,
        output_schema: output_schema(definition.output_schema.as_ref(), notes),
        examples: Vec::new(),
        title: definition.title.clone(),
    }
}

/// The upstream's schema, with only that left out which cannot be enforced: the upstream still checks it itself.
fn input_schema(offered: &Map<String, Value>, notes: &mut Vec<String>) -> Map<String, Value> {
    let mut schema = offered.clone();
    if !schema.contains_key("type") {
        schema.insert("type".to_owned(), json!("object"));
        notes.push("its input schema has no type; `object` was added".to_owned());
    }
    if compiles(&schema, Profile::Arguments) {
        return schema;
    }
    let mut left_out = 0;
    drop_patterns(&mut schema, &mut left_out);
    if left_out > 0 && compiles(&schema, Profile::Arguments) {
        notes.push(format!("{left_out} patterns of its input schema need a backtracking regex and were left out"));
        return schema;
    }
    offered.clone()
}

fn output_schema(offered: Option<&Map<String, Value>>, notes: &mut Vec<String>) -> Map<String, Value> {
    match offered {
        Some(schema) if compiles(schema, Profile::Results) => schema.clone(),
        Some(_) => {
            notes.push("its output schema cannot be enforced and was left out".to_owned());
            Map::new()
        }
        None => Map::new(),
    }
}

fn compiles(schema: &Map<String, Value>, profile: Profile) -> bool {
    CompiledSchema::compile(schema, profile).is_ok()
}

/// Removes string `pattern`s that the linear-time engine does not take.
fn drop_patterns(schema: &mut Map<String, Value>, left_out: &mut usize) {
    if let Some(Value::String(pattern)) = schema.get("pattern") {
        let alone = json!({ "type": "object", "properties": { "x": { "pattern": pattern } } });
        if let Value::Object(alone) = alone
            && !compiles(&alone, Profile::Arguments)
        {
            schema.remove("pattern");
            *left_out += 1;
        }
    }
    for member in schema.values_mut() {
        match member {
            Value::Object(inner) => drop_patterns(inner, left_out),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|inner| drop_patterns(inner, left_out));
            }
            _ => {}
        }
    }
}

const fn side_effect_class(reach: Reach) -> SideEffectClass {
    match reach {
        Reach::ReadOnly => SideEffectClass::ReadOnly,
        Reach::Temporary => SideEffectClass::EphemeralWrite,
        Reach::Minor => SideEffectClass::LowRiskInternal,
        Reach::Internal => SideEffectClass::MediumRiskWrite,
        Reach::External => SideEffectClass::HighRiskExternal,
        Reach::Critical => SideEffectClass::CriticalMutation,
    }
}

fn egress(definition: &Definition, reading: &Reading) -> EgressPolicy {
    match (definition.hint("openWorldHint"), reading.reach) {
        (Some(false), reach) if reach <= Reach::Internal => EgressPolicy::None,
        _ => EgressPolicy::UnrestrictedWithApproval,
    }
}

fn effect(upstream: &str, reading: &Reading) -> Effect {
    let operation = match reading.behaviour.action {
        Action::Create | Action::Append => SideEffectOperation::Create,
        Action::Delete => SideEffectOperation::Delete,
        Action::Read | Action::Search | Action::Update | Action::Merge | Action::Overwrite => {
            SideEffectOperation::Update
        }
    };
    let (class, mutation_class, manifest) = if reading.reach == Reach::ReadOnly {
        (EffectClass::R, MutationClass::ReadOnly, Vec::new())
    } else {
        let scope = if reading.reach <= Reach::Internal { "upstream" } else { "external" };
        let change = SideEffect { resource: format!("{upstream}/*"), operation, scope: scope.to_owned() };
        (EffectClass::N, MutationClass::WriteIrreversible, vec![change])
    };
    Effect {
        class,
        mutation_class: Some(mutation_class),
        manifest,
        key: None,
        key_window_sec: None,
        status: None,
        not_executed_errors: Vec::new(),
        // What is inferred names the whole server: to serialise it would be to make one call at a time.
        overlap: if class.mutates() { Overlap::Allow } else { Overlap::default() },
        version: None,
        reads: Vec::new(),
    }
}

fn error_contract(mutates: bool) -> ErrorContract {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    ErrorContract {
        repairable_errors: names(&[
            "SYNTACTIC_PARSE_FAIL",
            "STRUCTURAL_VIOLATION",
            "TYPE_MISMATCH",
            "OUT_OF_BOUNDS",
            "SEMANTIC_INVALIDITY",
        ]),
        retryable_errors: names(if mutates {
            &["RATE_LIMITED"]
        } else {
            &["RATE_LIMITED", "TIMEOUT", "DEPENDENCY_UNAVAILABLE"]
        }),
        fail_closed_errors: names(&[
            "PERMISSION_DENIED",
            "POLICY_VIOLATION",
            "SIGNATURE_MISMATCH",
            "CONFIRMATION_MISSING",
        ]),
        escalation_errors: names(&["OBSERVATION_NORMALIZATION_FAIL", "UNKNOWN_ERROR"]),
    }
}
