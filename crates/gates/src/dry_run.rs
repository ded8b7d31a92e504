//! An upstream's own dry run, where a contract names the argument that makes the upstream change nothing.
//!
//! The author of the contract says that a call with this argument only reads, so here it is one: a tool of its own, whose contract changes
//! nothing and whose schema requires the argument with this value. The gateway asks it as it asks every read-only tool. The call that it
//! stands for was judged under the whole contract before. Deliberately not here: asking it, and what its answer is used for.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use servanda_contract::{
    Digest, ToolContract,
    schema::{CompiledSchema, SchemaProfile},
    shared::Shared,
    tool::{
        EffectClass, EffectDeclaration, MutationClass, Overlap, SideEffectClass, TransactionSemantics, UpstreamDryRun,
    },
};

/// The contract of a dry run: that of a tool which only reads.
#[derive(Debug)]
pub(crate) struct DryRunContract {
    pub(crate) contract: ToolContract,
    /// The digest of the contract that it is derived from.
    pub(crate) digest: Digest,
    pub(crate) input: CompiledSchema,
    pub(crate) terms: UpstreamDryRun,
}

impl DryRunContract {
    /// The dry run of a contract; none if it names none. The error says why there cannot be one.
    pub(crate) fn derive(contract: &ToolContract) -> Result<Option<Self>, String> {
        let Some(terms) = contract.approval.as_ref().and_then(|terms| terms.dry_run.clone()) else { return Ok(None) };
        let digest = contract.digest().map_err(|error| error.to_string())?;
        let schema = schema_with(&contract.affordance.input_schema, &terms);
        let input = CompiledSchema::compile(&schema, SchemaProfile::Arguments)
            .map_err(|error| format!("the input schema does not compile with it: {error}"))?;
        let mut reads = contract.clone();
        reads.affordance.input_schema = schema.into();
        // An answer of a dry run is not a result, so the schema of results does not apply.
        reads.affordance.output_schema = Map::new().into();
        reads.affordance.examples = Vec::new();
        reads.transactional.side_effect_class = SideEffectClass::ReadOnly;
        reads.transactional.confirmation_required = false;
        reads.transactional.semantics = TransactionSemantics::ReadOnly;
        reads.transactional.compensation_tool = None;
        reads.transactional.post_action_verification_required = false;
        reads.idempotency.required = false;
        reads.effect = Some(Shared::new(EffectDeclaration {
            class: EffectClass::R,
            mutation_class: Some(MutationClass::ReadOnly),
            manifest: Vec::new(),
            key: None,
            key_window_sec: None,
            status: None,
            not_executed_errors: Vec::new(),
            overlap: Overlap::default(),
            version: None,
            reads: contract.effect.as_ref().map(|effect| effect.reads.clone()).unwrap_or_default(),
        }));
        (reads.rules, reads.preconditions, reads.probes) = (Vec::new(), Vec::new(), None);
        (reads.verification, reads.approval, reads.behaviour) = (None, None, None);
        // The gateway asks for itself, so there is no client that the upstream could question.
        reads.questions = Some(Vec::new());
        Ok(Some(Self { contract: reads, digest, input, terms }))
    }
}

/// The canonical arguments of a call, with the argument that makes it a dry run; none if they are no object.
pub(crate) fn dry_run_arguments(terms: &UpstreamDryRun, arguments: &Bytes) -> Option<Bytes> {
    let mut members: Map<String, Value> = serde_json::from_slice(arguments).ok()?;
    members.insert(terms.argument.clone(), terms.value.clone());
    serde_json::to_vec(&members).ok().map(Bytes::from)
}

/// The schema with the argument, whose only value is the one that changes nothing.
fn schema_with(schema: &Map<String, Value>, terms: &UpstreamDryRun) -> Map<String, Value> {
    let mut schema = schema.clone();
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(terms.argument.clone(), json!({ "const": terms.value }));
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    let name = Value::from(terms.argument.as_str());
    if let Some(required) = required.as_array_mut()
        && !required.contains(&name)
    {
        required.push(name);
    }
    schema
}
