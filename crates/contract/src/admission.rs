//! The admission predicate: nine conjuncts that must all hold before a contract serves a single call. The specification defines
//! eight of them; legible text is Servanda's own.
//!
//! A contract that fails one conjunct is refused as a whole and never served in part. Every failed conjunct is listed, because
//! people who must fix contracts one error at a time start to switch checks off.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Digest, TaxonomyClass, ToolContract, legibility,
    schema::{CompiledSchema, SchemaError, SchemaProfile},
    schemas,
    shared::SchemaDocument,
    tool::{
        Action, EffectClass, ErrorContract, KeyPlacement, LifecycleStatus, Mutability, MutationClass, Overlap,
        PollPlan, SemanticRule, SideEffectClass, TransactionSemantics,
    },
};

/// Failures that leave it unknown whether the upstream performed the call.
const UNCERTAIN: [TaxonomyClass; 3] =
    [TaxonomyClass::Timeout, TaxonomyClass::UnknownError, TaxonomyClass::DependencyUnavailable];

/// One condition of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Conjunct {
    /// Input, output and error schemas can be enforced.
    SchemaValid,
    /// The version is a semantic version, and no other contract is registered under this name and version.
    VersionRegistered,
    /// The contract says who may call.
    AuthPolicyDefined,
    /// The contract says how long a call may take.
    TimeoutClassAssigned,
    /// The contract says what follows an uncertain outcome.
    IdempotencySpecified,
    /// The contract says what the tool changes, and whether the change can be undone.
    MutationClassLabeled,
    /// Calls are traced and recorded.
    ObservabilityInstrumented,
    /// The contract's own examples pass.
    ContractTestsPassing,
    /// A model reads the same text that a person sees: no hidden characters, no names of mixed scripts.
    TextLegible,
}

/// A conjunct that does not hold, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AdmissionFailure {
    /// The conjunct.
    pub conjunct: Conjunct,
    /// The reason, in words that the contract's author can act on.
    pub reason: String,
}

/// A contract that is not admitted, with every reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("contract `{contract}` is not admitted: {}", list(failures))]
pub struct AdmissionRejection {
    /// The contract's name.
    pub contract: String,
    /// Every conjunct that failed.
    pub failures: Vec<AdmissionFailure>,
}

/// The result of judging a contract, with the schemas and the digest that judging produced.
#[derive(Debug)]
pub struct AdmissionReport {
    /// Every conjunct that failed.
    pub failures: Vec<AdmissionFailure>,
    /// The schema that arguments must match; `None` if it does not compile, which is then among the failures.
    pub input: Option<CompiledSchema>,
    /// The schema that results must match; `None` if the contract promises no result, or if the schema does not compile.
    pub output: Option<CompiledSchema>,
    /// The contract's digest; `None` if it could not be computed, which is then among the failures.
    pub digest: Option<Digest>,
}

/// Judges a contract by itself and against the contracts that are already admitted. The gates judge whether its examples pass.
pub fn judge(contract: &ToolContract, registered: &BTreeMap<(String, String), Digest>) -> AdmissionReport {
    let mut verdict = FailureCollector(Vec::new());
    // Serialised once: the document is checked against the published schema, searched for hidden text, and hashed.
    let document = match serde_json::to_value(contract) {
        Ok(document) => document,
        Err(error) => {
            verdict.fail(Conjunct::SchemaValid, format!("the contract cannot be written: {error}"));
            return AdmissionReport { failures: verdict.0, input: None, output: None, digest: None };
        }
    };
    let digest = ToolContract::digest_of(&document);
    let (input, output) = schema_valid(contract, &document, &mut verdict);
    if let Err(error) = &digest {
        verdict.fail(Conjunct::SchemaValid, format!("the contract has no digest: {error}"));
    }
    let digest = digest.ok();
    version_registered(contract, digest, registered, &mut verdict);
    auth_policy_defined(contract, &mut verdict);
    approval_consistent(contract, &mut verdict);
    timeout_class_assigned(contract, &mut verdict);
    idempotency_specified(contract, &mut verdict);
    mutation_class_labeled(contract, &mut verdict);
    observability_instrumented(contract, &mut verdict);
    text_legible(contract, &document, &mut verdict);
    AdmissionReport { failures: verdict.0, input, output, digest }
}

impl AdmissionFailure {
    /// A failure.
    pub fn new(conjunct: Conjunct, reason: impl Into<String>) -> Self {
        Self { conjunct, reason: reason.into() }
    }
}

impl fmt::Display for Conjunct {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

struct FailureCollector(Vec<AdmissionFailure>);

impl FailureCollector {
    fn fail(&mut self, conjunct: Conjunct, reason: impl Into<String>) {
        self.0.push(AdmissionFailure::new(conjunct, reason));
    }

    fn require(&mut self, holds: bool, conjunct: Conjunct, reason: &str) {
        if !holds {
            self.fail(conjunct, reason);
        }
    }
}

fn schema_valid(
    contract: &ToolContract,
    document: &Value,
    verdict: &mut FailureCollector,
) -> (Option<CompiledSchema>, Option<CompiledSchema>) {
    limits_kept(document, verdict);
    let affordance = &contract.affordance;
    let mut compiled = |member: &str, schema: &SchemaDocument, profile: SchemaProfile| {
        let compiled = CompiledSchema::compile_document(schema, profile);
        compiled.map_err(|error| verdict.fail(Conjunct::SchemaValid, format!("affordance.{member}: {error}"))).ok()
    };
    let input = compiled("input_schema", &affordance.input_schema, SchemaProfile::Arguments);
    // A schema without members promises nothing about the result.
    let promised = Some(&affordance.output_schema).filter(|schema| !schema.is_empty());
    let output = promised.and_then(|schema| compiled("output_schema", schema, SchemaProfile::Results));
    errors_sorted(&contract.error_contract, verdict);
    rules_addressed(&contract.rules, verdict);
    (input, output)
}

/// Every name in the error contract is a class of the taxonomy, and no class is both fail-closed and repairable or retryable.
fn errors_sorted(errors: &ErrorContract, verdict: &mut FailureCollector) {
    let lists = [
        ("repairable_errors", &errors.repairable_errors),
        ("retryable_errors", &errors.retryable_errors),
        ("fail_closed_errors", &errors.fail_closed_errors),
        ("escalation_errors", &errors.escalation_errors),
    ];
    for (list, names) in lists {
        for name in names.iter().filter(|name| TaxonomyClass::from_name(name).is_none()) {
            verdict.fail(Conjunct::SchemaValid, format!("error_contract.{list}: `{name}` is not a taxonomy class"));
        }
        let goes_on = ["repairable_errors", "retryable_errors"].contains(&list);
        for name in names.iter().filter(|name| goes_on && errors.fail_closed_errors.contains(name)) {
            let reason =
                format!("error_contract: `{name}` is in {list} and in fail_closed_errors: it is one or the other");
            verdict.fail(Conjunct::SchemaValid, reason);
        }
    }
}

/// A refusal names a rule by its id and a field by its pointer, so both must be unambiguous.
fn rules_addressed(rules: &[SemanticRule], verdict: &mut FailureCollector) {
    for (position, rule) in rules.iter().enumerate() {
        let before = rules.iter().take(position).filter(|other| other.id == rule.id).count();
        if before == 1 {
            verdict.fail(Conjunct::SchemaValid, format!("rules: the id `{}` is used more than once", rule.id));
        }
        for field in rule.fields.iter().filter(|field| !field.starts_with('/')) {
            let reason = format!("rule `{}`: the field `{field}` is not a JSON Pointer: write `/{field}`", rule.id);
            verdict.fail(Conjunct::SchemaValid, reason);
        }
    }
}

/// Checks the contract against the published contract schema. The schema has limits that the Rust types do not have, such as a
/// rate of at least one call, and it is the only place where they are written.
fn limits_kept(document: &Value, verdict: &mut FailureCollector) {
    static PUBLISHED: LazyLock<Result<CompiledSchema, SchemaError>> = LazyLock::new(|| {
        CompiledSchema::compile(schemas::contract().as_object().unwrap_or(&Map::new()), SchemaProfile::Results)
    });
    match &*PUBLISHED {
        Ok(schema) => {
            for error in schema.judge(document).into_all() {
                verdict.fail(Conjunct::SchemaValid, format!("{} must be {}", error.field, error.expected));
            }
        }
        Err(error) => verdict.fail(Conjunct::SchemaValid, format!("the contract schema cannot be used: {error}")),
    }
}

fn version_registered(
    contract: &ToolContract,
    digest: Option<Digest>,
    registered: &BTreeMap<(String, String), Digest>,
    verdict: &mut FailureCollector,
) {
    let conjunct = Conjunct::VersionRegistered;
    let identity = &contract.identity;
    if let Err(error) = semver::Version::parse(&identity.version) {
        verdict.fail(conjunct, format!("identity.version `{}` is not a semantic version: {error}", identity.version));
    }
    let key = (identity.name.clone(), identity.version.clone());
    if let Some(other) = registered.get(&key)
        && digest != Some(*other)
    {
        let (name, version) = key;
        verdict.0.push(already_registered(&name, &version));
    }
    let gone = identity.lifecycle.status == LifecycleStatus::Sunsetted;
    verdict.require(!gone, conjunct, "identity.lifecycle.status is `sunsetted`: it is not served any more");
}

/// The failure of a contract whose name and version already belong to a different contract.
pub fn already_registered(name: &str, version: &str) -> AdmissionFailure {
    AdmissionFailure::new(
        Conjunct::VersionRegistered,
        format!("another contract is already registered as `{name}` {version}"),
    )
}

fn auth_policy_defined(contract: &ToolContract, verdict: &mut FailureCollector) {
    let security = &contract.security;
    let named = security.required_scopes.iter().all(|scope| !scope.trim().is_empty());
    let stated = !security.required_scopes.is_empty() || !contract.effect_class().mutates();
    verdict.require(named, Conjunct::AuthPolicyDefined, "security.required_scopes has an empty scope");
    verdict.require(
        stated,
        Conjunct::AuthPolicyDefined,
        "security.required_scopes is empty, but the tool changes something: name the scope a caller needs",
    );
}

/// The terms of approval contradict neither themselves nor the rest of the contract.
fn approval_consistent(contract: &ToolContract, verdict: &mut FailureCollector) {
    let Some(terms) = &contract.approval else { return };
    let faults = terms.faults(contract.transactional.confirmation_required, &contract.identity.name);
    for fault in faults {
        verdict.fail(Conjunct::AuthPolicyDefined, fault);
    }
    let pointless = "approval.dry_run: a tool that changes nothing needs no dry run";
    let is_needed = terms.dry_run.is_none() || contract.effect_class().mutates();
    verdict.require(is_needed, Conjunct::AuthPolicyDefined, pointless);
}

fn timeout_class_assigned(contract: &ToolContract, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::TimeoutClassAssigned;
    verdict.require(contract.execution.is_some(), conjunct, "execution.timeout_class is missing");
    if let Some(plan) = contract.execution.as_ref().and_then(|execution| execution.poll.as_ref()) {
        let long = "execution.poll is for long work: the timeout class must be long_running or async";
        verdict.require(contract.is_long(), conjunct, long);
        pollable(contract, plan, verdict);
    }
}

/// Checks that the gateway can poll for the end of an operation as the plan says.
fn pollable(contract: &ToolContract, plan: &PollPlan, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::TimeoutClassAssigned;
    verdict.require(plan.tool != contract.identity.name, conjunct, "execution.poll.tool is the tool itself");
    for (member, pointer) in [
        ("operation_pointer", Some(&plan.operation_pointer)),
        ("state_pointer", Some(&plan.state_pointer)),
        ("result_pointer", plan.result_pointer.as_ref()),
    ] {
        if pointer.is_some_and(|pointer| !pointer.starts_with('/')) {
            verdict.fail(conjunct, format!("execution.poll.{member} must be a JSON Pointer, e.g. `/id`"));
        }
    }
    let named = !plan.operation_argument.trim().is_empty();
    verdict.require(named, conjunct, "execution.poll.operation_argument is empty");
    verdict.require(
        !plan.done_states.is_empty(),
        conjunct,
        "execution.poll.done_states is empty: the operation would never count as done",
    );
    if let Some(state) = plan.done_states.iter().find(|state| plan.failed_states.contains(state)) {
        verdict.fail(conjunct, format!("execution.poll: `{state}` cannot mean both done and failed"));
    }
}

fn idempotency_specified(contract: &ToolContract, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::IdempotencySpecified;
    let idempotency = &contract.idempotency;
    let Some(effect) = &contract.effect else {
        verdict.fail(conjunct, "effect.class is missing: say R, K, Q or N");
        return;
    };
    match effect.class {
        EffectClass::K => {
            let placed = effect.key.is_some() && effect.key_window_sec.is_some();
            verdict.require(placed, conjunct, "effect class K needs effect.key and effect.key_window_sec");
        }
        EffectClass::Q => {
            // A status tool is asked by key. If the upstream never got the key, the tool would always answer "not found".
            let placed = effect.key.is_some() && effect.status.is_some();
            verdict.require(placed, conjunct, "effect class Q needs effect.key and effect.status");
        }
        EffectClass::R | EffectClass::N => {}
    }
    if effect.class.takes_key() {
        key_placed(contract, effect.key.as_ref(), verdict);
    }
    sent_again(contract, effect.class, verdict);
    let possible = idempotency.supported || !idempotency.required;
    verdict.require(possible, conjunct, "idempotency.required is true but idempotency.supported is false");
    let empty = effect.not_executed_errors.iter().any(|text| text.trim().is_empty());
    verdict.require(!empty, conjunct, "effect.not_executed_errors has an empty text, which every error contains");
    let remembered = !idempotency.required || idempotency.ttl_seconds.is_some();
    verdict.require(remembered, conjunct, "idempotency.required is true but idempotency.ttl_seconds is null");
}

/// Checks that the key's place is not used by anything else.
fn key_placed(contract: &ToolContract, key: Option<&KeyPlacement>, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::IdempotencySpecified;
    match key {
        Some(KeyPlacement::Header(name)) => {
            let reason = "effect.key names a header that cannot be sent, or that is the protocol's own";
            verdict.require(is_free_header(name), conjunct, reason);
        }
        Some(KeyPlacement::Argument(name)) => {
            let declared = contract.affordance.input_schema.get("properties").and_then(|known| known.get(name));
            let reason = "effect.key names an argument of the input schema: the key would overwrite the caller's value";
            verdict.require(declared.is_none(), conjunct, reason);
        }
        Some(KeyPlacement::Meta(_)) | None => {}
    }
}

/// Whether a header name is valid and has no meaning in HTTP or MCP.
fn is_free_header(name: &str) -> bool {
    const TAKEN: [&str; 7] =
        ["accept", "authorization", "connection", "cookie", "host", "transfer-encoding", "traceparent"];
    let name = name.to_ascii_lowercase();
    let writable = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let taken = TAKEN.contains(&name.as_str()) || name.starts_with("mcp-") || name.starts_with("content-");
    !name.is_empty() && name.bytes().all(writable) && !taken
}

/// The effect class decides what may be sent again. Checks that no other part of the contract promises more.
fn sent_again(contract: &ToolContract, class: EffectClass, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::IdempotencySpecified;
    // The tool list tells agents that an idempotent tool may be called again.
    let idempotent = contract.transactional.semantics == TransactionSemantics::IdempotentWrite;
    let repeatable = matches!(class, EffectClass::K | EffectClass::Q);
    let reason = "transactional.semantics idempotent_write needs effect class K or Q: otherwise nothing makes a repeated call harmless";
    verdict.require(!idempotent || repeatable, conjunct, reason);
    if class != EffectClass::N {
        return;
    }
    let reason = "runtime.max_retries must be 0 for effect class N: nothing may be sent again";
    verdict.require(contract.runtime.max_retries == 0, conjunct, reason);
    let retryable = &contract.error_contract.retryable_errors;
    for name in retryable.iter().filter(|name| TaxonomyClass::from_name(name).is_some_and(|it| UNCERTAIN.contains(&it)))
    {
        let reason = format!(
            "error_contract.retryable_errors: `{name}` leaves it open whether something happened, and effect class N never \
             sends a call again"
        );
        verdict.fail(conjunct, reason);
    }
}

fn mutation_class_labeled(contract: &ToolContract, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::MutationClassLabeled;
    let Some(effect) = &contract.effect else {
        verdict.fail(conjunct, "effect.mutation_class is missing");
        return;
    };
    let Some(mutation_class) = effect.mutation_class else {
        verdict.fail(conjunct, "effect.mutation_class is missing");
        return;
    };
    let read_only = mutation_class == MutationClass::ReadOnly;
    let class_agrees = read_only == (effect.class == EffectClass::R);
    verdict.require(class_agrees, conjunct, "effect.class is R exactly when effect.mutation_class is read_only");
    let side_effect = contract.transactional.side_effect_class;
    let side_effect_agrees = read_only == (side_effect == SideEffectClass::ReadOnly);
    let reason = "transactional.side_effect_class is READ_ONLY exactly when effect.mutation_class is read_only";
    verdict.require(side_effect_agrees, conjunct, reason);
    let semantics_agree =
        (effect.class == EffectClass::R) == (contract.transactional.semantics == TransactionSemantics::ReadOnly);
    let reason = "transactional.semantics is read_only exactly when effect.class is R";
    verdict.require(semantics_agree, conjunct, reason);
    let manifested = read_only == effect.manifest.is_empty();
    let reason = "effect.manifest lists every change of a tool that makes some, and nothing for one that makes none";
    verdict.require(manifested, conjunct, reason);
    let undone = mutation_class != MutationClass::WriteReversible || contract.transactional.compensation_tool.is_some();
    verdict.require(undone, conjunct, "a reversible write names transactional.compensation_tool");
    let cached = contract.execution.as_ref().is_some_and(|execution| execution.cache_ttl_sec.is_some());
    let reason = "execution.cache_ttl_sec is only for tools that change nothing: with a cached answer, the change would not be made";
    verdict.require(read_only || !cached, conjunct, reason);
    let reason = "effect.reads is for tools that change nothing; what others change is in effect.manifest";
    verdict.require(read_only || effect.reads.is_empty(), conjunct, reason);
    let reason = "effect.version and effect.overlap are for tools that change something";
    let changes = effect.version.is_some() || effect.overlap != Overlap::default();
    verdict.require(!read_only || !changes, conjunct, reason);
    if let Some(behaviour) = &contract.behaviour {
        let pure = behaviour.mutability == Mutability::Pure;
        verdict.require(read_only == pure, conjunct, "behaviour.mutability contradicts effect.mutation_class");
        let acts = pure == matches!(behaviour.action, Action::Read | Action::Search);
        let reason = "behaviour.action is READ or SEARCH exactly when behaviour.mutability is PURE";
        verdict.require(acts, conjunct, reason);
        behaviour.kind_faults().chain(behaviour.reviewed_fault()).for_each(|fault| verdict.fail(conjunct, fault));
    }
}

fn observability_instrumented(contract: &ToolContract, verdict: &mut FailureCollector) {
    let conjunct = Conjunct::ObservabilityInstrumented;
    let observability = &contract.observability;
    let recorded = observability.audit_required || !contract.effect_class().mutates();
    verdict.require(recorded, conjunct, "observability.audit_required must be true for a tool that changes something");
    if let Some(probes) = &contract.probes {
        probes.faults(&contract.identity.name).into_iter().for_each(|fault| verdict.fail(conjunct, fault));
    }
    let verified = contract.verification.is_some() || !contract.transactional.post_action_verification_required;
    let reason = "transactional.post_action_verification_required is true, but there is no verification section";
    verdict.require(verified, conjunct, reason);
    for (code, class) in &observability.error_taxonomy_mapping {
        // An error that maps to a success would stay invisible.
        if TaxonomyClass::from_name(class).and_then(TaxonomyClass::envelope).is_none() {
            let reason = format!(
                "observability.error_taxonomy_mapping: `{code}` maps to `{class}`, which is not a failure class"
            );
            verdict.fail(conjunct, reason);
        }
    }
}

/// Checks every text of the contract, because a model may read any of it: descriptions and schemas in the tool list, rules and
/// mappings in refusals.
fn text_legible(contract: &ToolContract, document: &Value, verdict: &mut FailureCollector) {
    let dotted = |pointer: &str| pointer.trim_start_matches('/').replace('/', ".");
    for fault in legibility::faults(document) {
        verdict.fail(Conjunct::TextLegible, format!("{}: {}", dotted(&fault.pointer), fault.reason));
    }
    for (field, name) in [("identity.name", &contract.identity.name), ("binding.tool", &contract.binding.tool)] {
        // Hidden characters were already reported above, for every text.
        if let Some(fault) = legibility::name_fault(name).filter(|fault| !fault.is_hidden()) {
            verdict.fail(Conjunct::TextLegible, format!("{field}: the name {fault}"));
        }
    }
}

fn list(failures: &[AdmissionFailure]) -> String {
    failures.iter().map(|failure| format!("{}: {}", failure.conjunct, failure.reason)).collect::<Vec<_>>().join("; ")
}
