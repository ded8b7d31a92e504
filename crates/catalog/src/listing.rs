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
use servanda_mcp::{RawObject, fields::meta};

use crate::{Availability, pins::ToolExecution};

/// The description of the argument for the model.
const OPERATION_DESCRIPTION: &str =
    "Optional: your name for this operation; a repeat under the same name is not done twice.";

/// The member of a tool's definition that has what is said beside it.
const META: &str = "_meta";
/// Members of [`ListedContractSummary`] that depend on the caller.
const DISPOSITION: &str = "disposition";
const IRREVERSIBLE: &str = "irreversible";
const DRY_RUN: &str = "dry_run";
const PREVIEW: &str = "preview";

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
    /// What the definition says will become of a call.
    disposition: ListedDisposition,
    /// The same tool for callers of whose calls something else becomes. They are rendered once and shared by all lists.
    variants: [OnceLock<Arc<ListedTool>>; ListedDisposition::COUNT],
}

/// What becomes of a tool's calls, as far as it is known before there is one. A tool of which no call could be allowed is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedDisposition {
    /// They are decided at once.
    Allowed,
    /// Some of them may need a person's approval.
    MayNeedApproval,
    /// A person usually has to approve each one.
    NeedsApproval,
    /// They are refused, because the caller's credential lacks a scope that the tool needs.
    Refused,
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
    /// Absent if calls are decided at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    disposition: Option<&'static str>,
    /// Whether nothing undoes a change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    irreversible: bool,
    /// `preview` if the change needs an approval and cannot be undone, so that a preview is worth asking for first; `upstream` if the upstream
    /// has a dry run of its own. Every tool has a preview.
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
            Some(definition) => Self { disposition: self.disposition, ..Self::new(self.name.clone(), definition) },
            None => self.clone(),
        }
    }

    /// A tool with this definition.
    pub fn new(name: String, definition: Box<RawValue>) -> Self {
        Self { name, definition, disposition: ListedDisposition::Allowed, variants: Default::default() }
    }

    /// The same tool for a caller of whose calls this becomes.
    #[must_use]
    pub fn for_disposition(self: &Arc<Self>, disposition: ListedDisposition) -> Arc<Self> {
        let variant = self.variants.get(disposition.position()).filter(|_| disposition != self.disposition);
        let Some(variant) = variant else { return Arc::clone(self) };
        if let Some(known) = variant.get() {
            return Arc::clone(known);
        }
        // Only a definition that is not ours cannot be rendered; it is shown as it is.
        let Some(definition) = with_disposition(&self.definition, disposition) else { return Arc::clone(self) };
        let rendered = Self { disposition, ..Self::new(self.name.clone(), definition) };
        Arc::clone(variant.get_or_init(|| Arc::new(rendered)))
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
        let rendered = Self::new(name.to_owned(), serde_json::value::to_raw_value(&definition)?);
        Ok(Self { disposition: usual_disposition(compiled), ..rendered })
    }
}

impl ListedDisposition {
    const COUNT: usize = 4;

    /// The word in lists; none if calls are decided at once, which is usual: every word in a list costs tokens.
    const fn word(self) -> Option<&'static str> {
        match self {
            Self::Allowed => None,
            Self::MayNeedApproval => Some("may_need_approval"),
            Self::NeedsApproval => Some("needs_approval"),
            Self::Refused => Some("refused"),
        }
    }

    const fn position(self) -> usize {
        match self {
            Self::Allowed => 0,
            Self::MayNeedApproval => 1,
            Self::NeedsApproval => 2,
            Self::Refused => 3,
        }
    }

    const fn waits_for_people(self) -> bool {
        matches!(self, Self::MayNeedApproval | Self::NeedsApproval)
    }
}

/// The definition with another disposition; every other member stays as it is.
fn with_disposition(definition: &RawValue, disposition: ListedDisposition) -> Option<Box<RawValue>> {
    let members: RawObject<'_> = serde_json::from_str(definition.get()).ok()?;
    let notes: RawObject<'_> = serde_json::from_str(members.get(META)?.get()).ok()?;
    let mut summary: Map<String, Value> = serde_json::from_str(notes.get(meta::CONTRACT)?.get()).ok()?;
    match disposition.word() {
        Some(word) => summary.insert(DISPOSITION.to_owned(), word.into()),
        None => summary.shift_remove(DISPOSITION),
    };
    let is_irreversible = summary.get(IRREVERSIBLE) == Some(&Value::Bool(true));
    match summary.get(DRY_RUN).and_then(Value::as_str) {
        None if is_irreversible && disposition.waits_for_people() => {
            summary.insert(DRY_RUN.to_owned(), PREVIEW.into());
        }
        Some(PREVIEW) if !disposition.waits_for_people() => {
            summary.shift_remove(DRY_RUN);
        }
        _ => {}
    }
    let summary = serde_json::to_string(&summary).ok()?;
    let notes = notes.to_json_with(|name, _| (name == meta::CONTRACT).then(|| summary.clone()));
    RawValue::from_string(members.to_json_with(|name, _| (name == META).then(|| notes.clone()))).ok()
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
    let is_reversible = mutation_class(contract) == Some(MutationClass::WriteReversible);
    let additive = contract
        .behaviour
        .as_ref()
        .is_some_and(|behaviour| matches!(behaviour.action, Action::Create | Action::Append));
    ListedAnnotations {
        read_only_hint: !mutates,
        // A change of which the contract does not say that it can be undone counts as one that cannot.
        destructive_hint: mutates && !is_reversible && !additive,
        idempotent_hint: !mutates || contract.transactional.semantics == TransactionSemantics::IdempotentWrite,
        open_world_hint: contract.security.egress_policy != EgressPolicy::None,
    }
}

fn mutation_class(contract: &ToolContract) -> Option<MutationClass> {
    contract.effect.as_ref().and_then(|effect| effect.mutation_class)
}

/// Whether the contract says that nothing undoes a change.
fn is_irreversible(contract: &ToolContract) -> bool {
    contract.effect_class().mutates() && mutation_class(contract) == Some(MutationClass::WriteIrreversible)
}

/// What becomes of a call by a caller about whom nothing else is known.
fn usual_disposition(compiled: &CompiledContract) -> ListedDisposition {
    if compiled.usually_needs_approval() { ListedDisposition::NeedsApproval } else { ListedDisposition::Allowed }
}

fn dry_run(compiled: &CompiledContract) -> Option<&'static str> {
    match compiled.dry_run() {
        Some(_) => Some("upstream"),
        None => (is_irreversible(compiled.contract()) && compiled.usually_needs_approval()).then_some(PREVIEW),
    }
}

fn summary(compiled: &CompiledContract, availability: Availability) -> ListedContractSummary {
    let contract = compiled.contract();
    ListedContractSummary {
        side_effect_class: contract.transactional.side_effect_class,
        disposition: usual_disposition(compiled).word(),
        irreversible: is_irreversible(contract),
        dry_run: dry_run(compiled),
        availability: Some(availability).filter(|availability| *availability != Availability::Available),
    }
}
