//! Contracts compiled once, when they are admitted, so that they can judge calls. A [`CompiledContract`] is
//! evidence that the admission predicate held.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use servanda_approval::{ApprovalFacts, ApprovalInputs, ApprovalSettings, TrustLevel, demand};
use servanda_authority::{
    RequiredRights,
    rights::{Scope, Scopes},
};
use servanda_contract::{
    Digest, Timestamp, ToolContract,
    admission::{self, AdmissionFailure, AdmissionRejection, AdmissionReport, Conjunct},
    cost::{CostError, Price},
    record::ContractReference,
    schema::CompiledSchema,
    tool::{SideEffectClass, UpstreamDryRun},
};

use crate::{
    dry_run::{DryRunContract, dry_run_arguments},
    preconditions::CompiledPreconditions,
    probes::CompiledProbes,
    programs::{ProgramArgument, Programs},
    resources,
    rules::{CompiledRules, ResultCondition},
};

/// An admitted contract, with everything compiled that its gates need.
#[derive(Debug)]
pub struct CompiledContract {
    contract: ToolContract,
    digest: Digest,
    input: Arc<CompiledSchema>,
    output: Option<CompiledSchema>,
    rules: CompiledRules,
    found_when: Option<ResultCondition>,
    preconditions: CompiledPreconditions,
    programs: Programs,
    probes: CompiledProbes,
    scopes: BTreeSet<Scope>,
    price: Result<Price, CostError>,
    time_limit_place: Option<Box<str>>,
    usually_needs_approval: bool,
    /// The upstream's own dry run, as the read that the contract's author says it is.
    dry_run: Option<UpstreamDryRunTool>,
    /// Made for the first call, and shared by the records of all calls.
    reference: OnceLock<Arc<ContractReference>>,
}

/// An upstream's own dry run, as a tool that only reads.
#[derive(Debug)]
pub struct UpstreamDryRunTool {
    contract: Arc<CompiledContract>,
    terms: UpstreamDryRun,
}

/// Name and version of the contracts already admitted, with their digests.
pub type RegisteredContracts = BTreeMap<(String, String), Digest>;

/// Decides whether a contract may serve calls. The error names every conjunct that fails, not only the first.
pub fn admit(contract: ToolContract, registered: &RegisteredContracts) -> Result<CompiledContract, AdmissionRejection> {
    let AdmissionReport { mut failures, input, output, digest } = admission::judge(&contract, registered);
    let rules = CompiledRules::compile(&contract.rules);
    if let Err(reasons) = &rules {
        failures.extend(reasons.iter().map(|reason| AdmissionFailure::new(Conjunct::SchemaValid, reason.clone())));
    }
    if let (Some(input), Ok(rules)) = (&input, &rules) {
        let reasons = rules.undeclared(input).into_iter();
        failures.extend(reasons.map(|reason| AdmissionFailure::new(Conjunct::SchemaValid, reason)));
    }
    let found_when = found_when(&contract);
    if let Err(reason) = &found_when {
        let reason = format!("effect.status.found_when: {reason}");
        failures.push(AdmissionFailure::new(Conjunct::IdempotencySpecified, reason));
    }
    let demands = CompiledPreconditions::compile(&contract, input.as_ref()).unwrap_or_else(|reasons| {
        failures.extend(reasons.into_iter().map(|reason| AdmissionFailure::new(Conjunct::SchemaValid, reason)));
        CompiledPreconditions::default()
    });
    let programs = Programs::compile(&contract.affordance.input_schema).unwrap_or_else(|reasons| {
        failures.extend(reasons.into_iter().map(|reason| AdmissionFailure::new(Conjunct::SchemaValid, reason)));
        Programs::default()
    });
    let probes = CompiledProbes::compile(&contract, input.as_ref()).unwrap_or_else(|reasons| {
        failures.extend(reasons.into_iter().map(|reason| AdmissionFailure::new(Conjunct::SchemaValid, reason)));
        CompiledProbes::default()
    });
    let scopes = scopes(&contract).unwrap_or_else(|reason| {
        failures.push(AdmissionFailure::new(Conjunct::AuthPolicyDefined, reason));
        BTreeSet::new()
    });
    let broken = match (&input, &rules) {
        (Some(input), Ok(rules)) => test_examples(&contract, input, rules),
        _ if contract.affordance.examples.is_empty() => Vec::new(),
        _ => vec!["the examples cannot be tried while the schema or a rule does not compile".to_owned()],
    };
    failures.extend(broken.into_iter().map(|reason| AdmissionFailure::new(Conjunct::ContractTestsPassing, reason)));
    let dry_run = DryRunContract::derive(&contract).unwrap_or_else(|reason| {
        failures.push(AdmissionFailure::new(Conjunct::SchemaValid, format!("approval.dry_run: {reason}")));
        None
    });
    let price = Price::from_profile(&contract.runtime.cost_profile, contract.timeout_ms());
    match (input, rules, found_when, digest) {
        (Some(input), Ok(rules), Ok(found_when), Some(digest)) if failures.is_empty() => Ok(CompiledContract {
            usually_needs_approval: ApprovalFacts::from_contract(&contract).asks_by_itself(),
            contract,
            digest,
            // Most tools are rarely or never called, so the validator is compiled on first use.
            input: Arc::new(input.without_validator()),
            output: output.map(CompiledSchema::without_validator),
            rules,
            found_when,
            preconditions: demands,
            programs,
            probes,
            scopes,
            price,
            time_limit_place: None,
            dry_run: dry_run.map(UpstreamDryRunTool::new),
            reference: OnceLock::new(),
        }),
        // The missing part is among the failures.
        _ => Err(AdmissionRejection { contract: contract.identity.name, failures }),
    }
}

/// The scopes that a caller needs, as words in tokens.
fn scopes(contract: &ToolContract) -> Result<BTreeSet<Scope>, String> {
    match Scopes::from_words(&contract.security.required_scopes) {
        Ok(Scopes::These(scopes)) => Ok(scopes),
        // No list of words means all scopes.
        Ok(Scopes::All) => Ok(BTreeSet::new()),
        Err(error) => Err(format!("security.required_scopes: {error}")),
    }
}

/// The condition under which a status tool's answer says that a key was executed.
fn found_when(contract: &ToolContract) -> Result<Option<ResultCondition>, String> {
    let status = contract.effect.as_ref().and_then(|effect| effect.status.as_ref());
    let condition = status.map(|status| status.found_when.as_deref().unwrap_or("result.found == true"));
    condition.map(ResultCondition::compile).transpose()
}

/// A contract's examples are its own tests: each must pass the gates that the contract itself defines.
fn test_examples(contract: &ToolContract, input: &CompiledSchema, rules: &CompiledRules) -> Vec<String> {
    let mut broken = Vec::new();
    for example in &contract.affordance.examples {
        let mut arguments = serde_json::Value::Object(example.arguments.clone());
        input.apply_defaults(&mut arguments);
        let findings = input.judge(&arguments).into_all();
        let errors = if findings.is_empty() { rules.violations(&arguments) } else { findings };
        if let Some(error) = errors.first() {
            broken.push(format!("example `{}`: {}", example.description, error.message));
        }
    }
    broken
}

impl CompiledContract {
    /// Sets where a person can change the time limit of a call: the field and its file.
    #[must_use]
    pub fn with_time_limit_place(mut self, place: String) -> Self {
        self.time_limit_place = Some(place.into());
        self
    }

    /// Where a person can change the time limit of a call, if that is known.
    pub fn time_limit_place(&self) -> Option<&str> {
        self.time_limit_place.as_deref()
    }

    /// The same contract under an operator's settings for approvals.
    #[must_use]
    pub fn with_approval_settings(mut self, settings: &ApprovalSettings) -> Self {
        let facts = ApprovalFacts::from_contract(&self.contract);
        let class = self.contract.transactional.side_effect_class;
        let inputs = ApprovalInputs { class, facts, trust: TrustLevel::Proven, policies: &[], payload: None };
        self.usually_needs_approval = demand(&inputs, settings).is_some();
        self
    }

    /// A contract that only reads, without anything but its schema: its author's rules were applied to the call that it stands for.
    fn for_dry_run(contract: ToolContract, digest: Digest, input: CompiledSchema) -> Self {
        let price = Price::from_profile(&contract.runtime.cost_profile, contract.timeout_ms());
        Self {
            contract,
            digest,
            input: Arc::new(input.without_validator()),
            output: None,
            rules: CompiledRules::default(),
            found_when: None,
            preconditions: CompiledPreconditions::default(),
            programs: Programs::default(),
            probes: CompiledProbes::default(),
            scopes: BTreeSet::new(),
            price,
            time_limit_place: None,
            usually_needs_approval: false,
            dry_run: None,
            reference: OnceLock::new(),
        }
    }

    /// The upstream's own dry run, if the contract names one.
    pub const fn dry_run(&self) -> Option<&UpstreamDryRunTool> {
        self.dry_run.as_ref()
    }

    /// Whether its calls need a person's approval, unless a policy or the program in a call says otherwise.
    pub const fn usually_needs_approval(&self) -> bool {
        self.usually_needs_approval
    }

    /// The price of a call, if it can be counted.
    pub fn price(&self) -> Result<&Price, CostError> {
        self.price.as_ref().map_err(CostError::clone)
    }

    /// The contract as its author wrote it.
    pub fn contract(&self) -> &ToolContract {
        &self.contract
    }

    /// Its digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The schema that arguments have to satisfy.
    pub fn input(&self) -> &Arc<CompiledSchema> {
        &self.input
    }

    /// The schema that structured results have to satisfy, if the contract has one.
    pub fn output(&self) -> Option<&CompiledSchema> {
        self.output.as_ref()
    }

    /// How a record refers to it.
    pub fn reference(&self) -> Arc<ContractReference> {
        let ToolContract { identity, binding, .. } = &self.contract;
        let reference = self.reference.get_or_init(|| {
            Arc::new(ContractReference {
                name: identity.name.clone(),
                version: identity.version.clone(),
                digest: self.digest,
                upstream: binding.upstream.clone(),
                upstream_tool: binding.tool.clone(),
                effect_class: self.contract.effect_class(),
            })
        });
        Arc::clone(reference)
    }

    /// Whether a status tool's structured answer says that the key was executed. The error says why that cannot
    /// be decided.
    pub fn says_found(&self, result: &serde_json::Value) -> Result<bool, &'static str> {
        self.found_when.as_ref().map_or(Err("there is no status tool"), |condition| condition.holds(result))
    }

    /// The arguments that are programs, requests or paths, as the contract says.
    pub fn program_arguments(&self) -> impl Iterator<Item = ProgramArgument> {
        self.programs.named()
    }

    /// Every scope a caller needs.
    pub fn scopes(&self) -> &BTreeSet<Scope> {
        &self.scopes
    }

    /// The probes that run around its calls.
    pub fn probes(&self) -> &CompiledProbes {
        &self.probes
    }

    /// The rights that a credential needs for a call of that class that touches these resources. Gate 7 checks
    /// them for the call. They are checked again for every caller that later reads, cancels or answers that
    /// call.
    pub fn need<'a>(&'a self, class: SideEffectClass, resources: &'a [String], at: Timestamp) -> RequiredRights<'a> {
        RequiredRights { scopes: self.scopes(), tool: &self.contract().identity.name, resources, class, at }
    }

    /// The class of a call with these arguments, if the contract says that its program decides and the program
    /// is proved to be milder than the contract's class.
    pub fn program_class(&self, arguments: &[u8]) -> Option<SideEffectClass> {
        self.programs().class(self.contract(), arguments)
    }

    /// The class of a call with these arguments.
    pub fn class_of(&self, arguments: &[u8]) -> SideEffectClass {
        self.program_class(arguments).unwrap_or(self.contract().transactional.side_effect_class)
    }

    /// Whether a call can be of a milder class than the contract's.
    pub fn program_decides_class(&self) -> bool {
        self.programs().decide_class()
    }

    /// The class of the mildest possible call.
    pub fn mildest_class(&self) -> SideEffectClass {
        if self.program_decides_class() {
            SideEffectClass::ReadOnly
        } else {
            self.contract().transactional.side_effect_class
        }
    }

    /// The resources that a call with these arguments changes or reads; everything, if the contract names none.
    pub fn touched(&self, arguments: &Bytes) -> Vec<String> {
        resources::touched(self.contract(), arguments)
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn preconditions(&self) -> &CompiledPreconditions {
        &self.preconditions
    }

    pub(crate) fn rules(&self) -> &CompiledRules {
        &self.rules
    }
}

impl UpstreamDryRunTool {
    fn new(derived: DryRunContract) -> Self {
        let DryRunContract { contract, digest, input, terms } = derived;
        Self { contract: Arc::new(CompiledContract::for_dry_run(contract, digest, input)), terms }
    }

    /// Its contract, which only reads.
    pub fn contract(&self) -> &Arc<CompiledContract> {
        &self.contract
    }

    /// The arguments of the dry run of a call with these canonical arguments; none if they are no object.
    pub(crate) fn arguments(&self, arguments: &Bytes) -> Option<Bytes> {
        dry_run_arguments(&self.terms, arguments)
    }
}
