//! The tool list as agents see it: the contract's text and schemas, never the upstream's unpinned ones.

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{Arc, OnceLock},
};

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};
use servanda_contract::tool::{
    Action, EgressPolicy, MutationClass, SideEffectClass, ToolContract, TransactionSemantics,
};
use servanda_gates::{CompiledContract, KEY_CHARS_MAX, OPERATION_ARGUMENT, forget_programs, takes_operation_argument};
use servanda_mcp::fields::meta;

use crate::{Availability, pins::ToolExecution};

/// The description of the argument for the model.
const OPERATION_DESCRIPTION: &str =
    "Optional: your name for this operation; a repeat under the same name is not done twice.";

/// The tools on offer.
#[derive(Debug, Default)]
pub struct Listing {
    /// Increases with every change.
    pub generation: u64,
    /// Grouped by upstream, each in the upstream's order; tools that it has not listed yet come last, by name.
    ///
    /// The entries are shared, because the lists of different requesters have most of them in common.
    pub tools: Vec<Arc<ListedTool>>,
}

/// One tool on offer.
#[derive(Debug, Clone)]
pub struct ListedTool {
    /// The exposed name.
    pub name: String,
    /// The whole MCP tool definition as JSON, ready to send.
    pub definition: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedDefinition<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: String,
    input_schema: Cow<'a, Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a Map<String, Value>>,
    annotations: ListedAnnotations,
    #[serde(rename = "_meta")]
    meta: Value,
}

/// The part of the contract that a client uses before it calls. Operators see the rest with `servanda identity show`.
#[derive(Serialize)]
struct ListedContractSummary {
    side_effect_class: SideEffectClass,
    /// `needs_approval` if a person usually has to approve each call; absent if calls are decided at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<&'static str>,
    /// `preview` if the change cannot be undone, so that it should be asked for first; `upstream` if the upstream has a dry run of its own.
    /// Every tool has a preview.
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<&'static str>,
    /// Absent if the upstream answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    availability: Option<Availability>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "the protocol's annotations")]
struct ListedAnnotations {
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

/// A tool's rendering, one for each availability of its upstream.
#[derive(Debug, Clone)]
pub(crate) struct ToolRenderings {
    available: Arc<ListedTool>,
    /// Rendered when the upstream does not answer.
    unavailable: OnceLock<Arc<ListedTool>>,
}

impl ToolRenderings {
    pub(crate) fn new(name: &str, compiled: &CompiledContract) -> Result<Self, serde_json::Error> {
        let available = Arc::new(ListedTool::render(name, compiled, Availability::Available)?);
        Ok(Self { available, unavailable: OnceLock::new() })
    }

    pub(crate) fn listed(&self, compiled: &CompiledContract, availability: Availability) -> &Arc<ListedTool> {
        match availability {
            Availability::Available => &self.available,
            Availability::Unavailable => self.unavailable.get_or_init(|| {
                // It differs by one word from the first rendering, so rendering cannot fail here either.
                let rendered = ListedTool::render(&self.available.name, compiled, availability);
                rendered.map_or_else(|_| Arc::clone(&self.available), Arc::new)
            }),
        }
    }
}

impl ListedTool {
    /// The same tool with the upstream's own statement on how it may be run: the upstream decides about the wire, and this says
    /// nothing about what the tool does.
    #[must_use]
    pub(crate) fn with_execution(&self, execution: ToolExecution) -> Self {
        let members = self.definition.get().strip_prefix('{');
        let rendered = members.and_then(|members| {
            let execution = serde_json::to_string(&execution).ok()?;
            RawValue::from_string(format!("{{\"execution\":{execution},{members}")).ok()
        });
        match rendered {
            Some(definition) => Self { name: self.name.clone(), definition },
            None => self.clone(),
        }
    }

    /// Renders an admitted contract under its exposed name.
    pub fn render(
        name: &str,
        compiled: &CompiledContract,
        availability: Availability,
    ) -> Result<Self, serde_json::Error> {
        let contract = compiled.contract();
        let definition = ListedDefinition {
            name,
            title: contract.affordance.title.as_deref(),
            description: description(contract),
            input_schema: input_schema(compiled),
            // Legacy clients accept only object schemas; a contract that promises something else still enforces it.
            output_schema: Some(&*contract.affordance.output_schema)
                .filter(|schema| schema.get("type") == Some(&Value::from("object"))),
            annotations: annotations(contract),
            meta: json!({ meta::CONTRACT: summary(compiled, availability) }),
        };
        Ok(Self { name: name.to_owned(), definition: serde_json::value::to_raw_value(&definition)? })
    }
}

/// The schema that gates 2 to 4 enforce, including closed objects, so that it accepts exactly what they accept. It omits what
/// the contract says only to the gates. For a tool that changes something, it adds the argument by which a model can name its
/// operation.
fn input_schema(compiled: &CompiledContract) -> Cow<'_, Map<String, Value>> {
    let schema = compiled.input().effective_members();
    let wanted = takes_operation_argument(compiled);
    let has_programs = compiled.program_arguments().next().is_some();
    if !wanted && !has_programs {
        return schema;
    }
    let mut schema = schema.into_owned();
    forget_programs(&mut schema);
    if !wanted {
        return Cow::Owned(schema);
    }
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let argument = json!({
            "type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX, "description": OPERATION_DESCRIPTION,
        });
        properties.insert(OPERATION_ARGUMENT.to_owned(), argument);
    }
    Cow::Owned(schema)
}

fn description(contract: &ToolContract) -> String {
    let affordance = &contract.affordance;
    let mut text = affordance.model_description.clone();
    for (label, cases) in
        [("Use for", &affordance.allowed_use_cases), ("Do not use for", &affordance.forbidden_use_cases)]
    {
        if !cases.is_empty() {
            let _ = write!(text, "\n{label}: {}.", cases.join("; "));
        }
    }
    text
}

/// Annotations that a client may show in its own prompts. They come from the contract, so that they are true.
fn annotations(contract: &ToolContract) -> ListedAnnotations {
    let mutates = contract.effect_class().mutates();
    let irreversible =
        contract.effect.as_ref().and_then(|effect| effect.mutation_class) == Some(MutationClass::WriteIrreversible);
    let additive = contract
        .behaviour
        .as_ref()
        .is_some_and(|behaviour| matches!(behaviour.action, Action::Create | Action::Append));
    ListedAnnotations {
        read_only_hint: !mutates,
        destructive_hint: mutates && irreversible && !additive,
        idempotent_hint: !mutates || contract.transactional.semantics == TransactionSemantics::IdempotentWrite,
        open_world_hint: contract.security.egress_policy != EgressPolicy::None,
    }
}

fn dry_run(compiled: &CompiledContract) -> Option<&'static str> {
    let mutation = compiled.contract().effect.as_ref().and_then(|effect| effect.mutation_class);
    let is_irreversible = mutation == Some(MutationClass::WriteIrreversible);
    match compiled.dry_run() {
        Some(_) => Some("upstream"),
        None => (is_irreversible && compiled.usually_needs_approval()).then_some("preview"),
    }
}

fn summary(compiled: &CompiledContract, availability: Availability) -> ListedContractSummary {
    let contract = compiled.contract();
    ListedContractSummary {
        side_effect_class: contract.transactional.side_effect_class,
        disposition: compiled.usually_needs_approval().then_some("needs_approval"),
        dry_run: dry_run(compiled),
        availability: Some(availability).filter(|availability| *availability != Availability::Available),
    }
}
