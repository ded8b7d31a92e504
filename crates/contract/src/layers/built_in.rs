//! The lowest layer: the values that Servanda assumes for a tool of a side-effect class until a file overrides them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    Digest,
    digest::DigestDomain,
    tool::{
        Action, Binding, CostComponents, CostProfile, CostUnit, DataClassification, EffectClass, EffectDeclaration,
        EgressPolicy, ErrorContract, Execution, Idempotency, Identity, Lifecycle, LifecycleStatus, MutationClass,
        Observability, Overlap, RateLimits, Runtime, SecretsBoundary, Security, SideEffect, SideEffectClass,
        SideEffectOperation, TimeoutClass, TransactionSemantics, Transactional,
    },
};

/// The longest name a contract may have.
const CONTRACT_NAME_CHARS_MAX: usize = 128;
/// Calls of one tool in a minute.
const CALLS_PER_MINUTE_MAX: u64 = 600;

/// The inputs of the built-in layer.
#[derive(Debug, Clone, Copy)]
pub struct BuiltInInputs<'a> {
    /// The server's id in the configuration.
    pub server: &'a str,
    /// The tool's own name.
    pub tool: &'a str,
    /// How grave it is.
    pub class: SideEffectClass,
    /// What the tool does, if that is declared.
    pub action: Option<Action>,
}

/// The name of a tool's contract: server and tool. A name that had to be changed gets a hash, so that no two tools share a
/// name.
pub fn contract_name(server: &str, tool: &str) -> String {
    let wanted = format!("{server}.{tool}");
    let plain = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
    if wanted.chars().all(plain) && wanted.len() <= CONTRACT_NAME_CHARS_MAX {
        return wanted;
    }
    let kept: String = wanted.chars().map(|character| if plain(character) { character } else { '_' }).collect();
    let kept: String = kept.chars().take(CONTRACT_NAME_CHARS_MAX - 9).collect();
    format!("{kept}_{}", Digest::compute(DigestDomain::Definition, &[wanted.as_bytes()]).hex_prefix(8))
}

/// Every section except texts, schemas and behaviour.
pub(super) fn contract(subject: &BuiltInInputs<'_>) -> Result<Map<String, Value>, serde_json::Error> {
    let mutates = subject.class != SideEffectClass::ReadOnly;
    let mut members = Map::new();
    members.insert("identity".to_owned(), serde_json::to_value(identity(subject))?);
    members.insert("affordance".to_owned(), affordance());
    members.insert("runtime".to_owned(), serde_json::to_value(runtime(mutates))?);
    members.insert("security".to_owned(), serde_json::to_value(security(subject.server, mutates))?);
    members.insert("transactional".to_owned(), serde_json::to_value(transactional(subject.class, mutates))?);
    members.insert("idempotency".to_owned(), serde_json::to_value(idempotency(mutates))?);
    members.insert("observability".to_owned(), serde_json::to_value(observability())?);
    members.insert("error_contract".to_owned(), serde_json::to_value(error_contract(mutates))?);
    let binding = Binding { upstream: subject.server.to_owned(), tool: subject.tool.to_owned() };
    members.insert("binding".to_owned(), serde_json::to_value(binding)?);
    members.insert("execution".to_owned(), serde_json::to_value(execution())?);
    members.insert("effect".to_owned(), serde_json::to_value(effect(subject))?);
    Ok(members)
}

fn identity(subject: &BuiltInInputs<'_>) -> Identity {
    Identity {
        name: contract_name(subject.server, subject.tool),
        version: "1.0.0".to_owned(),
        owner: "unassigned".to_owned(),
        lifecycle: Lifecycle { status: LifecycleStatus::Active, sunset_date: None, replacement: None },
    }
}

fn affordance() -> Value {
    serde_json::json!({ "allowed_use_cases": [], "forbidden_use_cases": [], "examples": [] })
}

/// A write gets more time than a read, because giving up on it too soon leaves its outcome unknown.
fn runtime(mutates: bool) -> Runtime {
    Runtime {
        timeout_ms: if mutates { 60_000 } else { 30_000 },
        rate_limits: RateLimits { window_sec: 60, max_requests: CALLS_PER_MINUTE_MAX },
        cost_profile: CostProfile {
            currency: "USD".to_owned(),
            cost_per_call: 0.0,
            cost_unit: CostUnit::Call,
            components: CostComponents::default(),
        },
        sandbox_isolated: false,
        max_retries: 0,
    }
}

fn execution() -> Execution {
    Execution { timeout_class: TimeoutClass::Unmeasured, cache_ttl_sec: None, retry: None, poll: None }
}

fn security(server: &str, mutates: bool) -> Security {
    Security {
        required_scopes: vec![format!("{server}:{}", if mutates { "write" } else { "read" })],
        tenant_scoped: false,
        secrets_boundary: SecretsBoundary::ExecutionSandbox,
        data_classification: DataClassification::Internal,
        egress_policy: EgressPolicy::UnrestrictedWithApproval,
    }
}

fn transactional(class: SideEffectClass, mutates: bool) -> Transactional {
    Transactional {
        side_effect_class: class,
        confirmation_required: false,
        semantics: if mutates { TransactionSemantics::IrreversiblePivot } else { TransactionSemantics::ReadOnly },
        compensation_tool: None,
        post_action_verification_required: false,
    }
}

fn idempotency(mutates: bool) -> Idempotency {
    Idempotency {
        supported: false,
        required: false,
        key_header: None,
        ttl_seconds: None,
        payload_hash_required: mutates,
        operation_argument: false,
    }
}

fn observability() -> Observability {
    Observability {
        trace_attributes: ["tool.name", "tool.version", "tool.call_id"].map(str::to_owned).to_vec(),
        audit_required: true,
        error_taxonomy_mapping: BTreeMap::new(),
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

/// Class N for every tool that changes something: a call is never sent again until a file allows it.
fn effect(subject: &BuiltInInputs<'_>) -> EffectDeclaration {
    let (class, mutation_class, manifest) = if subject.class == SideEffectClass::ReadOnly {
        (EffectClass::R, MutationClass::ReadOnly, Vec::new())
    } else {
        let scope = if subject.class >= SideEffectClass::HighRiskExternal { "external" } else { "upstream" };
        let operation = operation(subject.action);
        let change = SideEffect { resource: format!("{}/*", subject.server), operation, scope: scope.to_owned() };
        (EffectClass::N, MutationClass::WriteIrreversible, vec![change])
    };
    EffectDeclaration {
        class,
        mutation_class: Some(mutation_class),
        manifest,
        key: None,
        key_window_sec: None,
        status: None,
        not_executed_errors: Vec::new(),
        // The manifest names the whole server. Serialising by it would allow one call at a time.
        overlap: if class.mutates() { Overlap::Allow } else { Overlap::default() },
        version: None,
        reads: Vec::new(),
    }
}

fn operation(action: Option<Action>) -> SideEffectOperation {
    match action {
        Some(Action::Create | Action::Append) => SideEffectOperation::Create,
        Some(Action::Delete) => SideEffectOperation::Delete,
        Some(Action::Read | Action::Search | Action::Update | Action::Merge | Action::Overwrite) | None => {
            SideEffectOperation::Update
        }
    }
}
