//! The words policies are written in: the tools that exist, their facts and the types of their arguments, taken from the
//! contracts. Deliberately not the policies: a vocabulary is the same whoever may do what.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cedar_policy::{Entities, Entity, EntityUid, RestrictedExpression};
use servanda_contract::{
    ToolContract,
    schema::{CompiledSchema, Profile, SchemaError},
    tool::{DataClassification, EgressPolicy, SideEffectClass},
};

use crate::{
    memory,
    mentions::{AllNeeds, Needs},
    names::{CALL, Names, uid},
    schema,
    types::{Attribute, Untyped, arguments_of},
    unseen::Unseen,
};

/// What is known of one tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Its contract.
    pub contract: &'a ToolContract,
    /// The tenants it is for; none named is a tool of everybody.
    pub tenants: &'a BTreeSet<String>,
}

/// The tools of a gateway as policies see them.
#[derive(Debug)]
pub struct Vocabulary {
    tools: BTreeMap<String, Tool>,
    untyped: Vec<Untyped>,
    names: Names,
}

/// Contracts that no vocabulary can be made of.
#[derive(Debug, thiserror::Error)]
pub enum VocabularyError {
    /// Two contracts of one name: a policy could not say which it means.
    #[error("two contracts are named `{tool}`: policies could not tell them apart")]
    SameName {
        /// The name.
        tool: String,
    },
    /// A name that admission would have refused.
    #[error("the tool name {tool:?} is not one a policy can name: use letters, digits, `_`, `.` and `-`, at most 128")]
    Name {
        /// The name.
        tool: String,
    },
    /// Arguments that cannot be enforced have no type either.
    #[error("the input schema of `{tool}` cannot be read")]
    Schema {
        /// The tool.
        tool: String,
        /// Why.
        source: SchemaError,
    },
    /// Cedar refused something we made: a defect of ours.
    #[error("`{tool}` cannot be told to the policy engine: {reason}")]
    Engine {
        /// The tool.
        tool: String,
        /// Cedar's words.
        reason: String,
    },
}

/// One tool, with everything that does not depend on the call already made.
#[derive(Debug)]
pub(crate) struct Tool {
    /// No other tool of any vocabulary has it.
    pub number: u64,
    pub resource: EntityUid,
    pub action: EntityUid,
    pub upstream: String,
    pub arguments: BTreeMap<String, Attribute>,
    /// What of its arguments policies cannot see.
    pub unseen: Vec<Unseen>,
    /// It takes arguments that its contract does not declare.
    pub open: bool,
    /// The tool and its action. What a call adds is the principal.
    pub entities: Entities,
}

impl Vocabulary {
    /// The vocabulary of some tools.
    pub fn of<'a>(tools: impl IntoIterator<Item = ToolFacts<'a>>) -> Result<Self, VocabularyError> {
        let names = Names::new().map_err(|error| engine("", &error))?;
        let mut vocabulary = Self { tools: BTreeMap::new(), untyped: Vec::new(), names };
        for facts in tools {
            vocabulary.add(&facts)?;
        }
        Ok(vocabulary)
    }

    /// The schema in Cedar's language, for people and their editors.
    pub fn schema_text(&self) -> String {
        schema::whole(self)
    }

    /// Which arguments of which tools policies cannot see, and why.
    pub fn untyped(&self) -> &[Untyped] {
        &self.untyped
    }

    /// The names of the tools, in order.
    pub fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    pub(crate) fn tools(&self) -> &BTreeMap<String, Tool> {
        &self.tools
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    pub(crate) fn has_upstream(&self, name: &str) -> bool {
        self.tools.values().any(|tool| tool.upstream == name)
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    fn add(&mut self, facts: &ToolFacts<'_>) -> Result<(), VocabularyError> {
        let contract = facts.contract;
        let tool = &contract.identity.name;
        let spelled = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if tool.is_empty() || tool.len() > 128 || !tool.bytes().all(spelled) {
            return Err(VocabularyError::Name { tool: tool.clone() });
        }
        if self.tools.contains_key(tool) {
            return Err(VocabularyError::SameName { tool: tool.clone() });
        }
        let compiled = CompiledSchema::compile(&contract.affordance.input_schema, Profile::Arguments)
            .map_err(|source| VocabularyError::Schema { tool: tool.clone(), source })?;
        let (arguments, unseen) = arguments_of(compiled.effective());
        let untyped = |left_out: &Unseen| {
            let steps = left_out.path.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")));
            Untyped { tool: tool.clone(), pointer: steps.collect(), reason: left_out.reason.clone() }
        };
        self.untyped.extend(unseen.iter().map(untyped));
        let open = compiled.may_have("");
        let resource = uid(&self.names.tool, tool);
        let action = self.names.tool_action(tool);
        let entities = self.entities(facts, &resource, &action).map_err(|reason| engine(tool, &reason))?;
        let upstream = contract.binding.upstream.clone();
        let number = memory::next_number();
        self.tools.insert(tool.clone(), Tool { number, resource, action, upstream, arguments, unseen, open, entities });
        Ok(())
    }

    fn entities(&self, facts: &ToolFacts<'_>, resource: &EntityUid, action: &EntityUid) -> Result<Entities, String> {
        let upstream = uid(&self.names.upstream, &facts.contract.binding.upstream);
        let attributes = tool_attributes(facts).map_err(|error| error.to_string())?;
        let tool = Entity::new(resource.clone(), attributes, HashSet::from([upstream]));
        let tool = tool.map_err(|error| error.to_string())?;
        let action = Entity::new_no_attrs(action.clone(), HashSet::from([uid(&self.names.action, CALL)]));
        Entities::from_entities([tool, action], None).map_err(|error| error.to_string())
    }
}

impl Tool {
    /// Whether a call may bring an argument that policies look at and cannot hold, so that it is refused.
    pub(crate) fn may_strain(&self, needs: &Needs) -> bool {
        let all: AllNeeds<'_> = [needs].into_iter().collect();
        let undeclared = |name: &String| !self.arguments.contains_key(name);
        self.arguments.iter().any(|(name, argument)| all.argument(name) && argument.kind.may_not_fit())
            || self.open && (needs.whole || needs.all_arguments || needs.arguments.iter().any(undeclared))
    }
}

impl<'a> From<&'a ToolContract> for ToolFacts<'a> {
    fn from(contract: &'a ToolContract) -> Self {
        static EVERYBODY: BTreeSet<String> = BTreeSet::new();
        Self { contract, tenants: &EVERYBODY }
    }
}

pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(|text| RestrictedExpression::new_string(text.clone())))
}

fn tool_attributes(
    facts: &ToolFacts<'_>,
) -> Result<HashMap<String, RestrictedExpression>, cedar_policy::ExpressionConstructionError> {
    let contract = facts.contract;
    let (security, transactional) = (&contract.security, &contract.transactional);
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let mut attributes = vec![
        ("name", text(&contract.identity.name)),
        ("version", text(&contract.identity.version)),
        ("upstream", text(&contract.binding.upstream)),
        ("owner", text(&contract.identity.owner)),
        ("side_effect_class", text(transactional.side_effect_class.word())),
        ("risk", RestrictedExpression::new_long(risk(transactional.side_effect_class))),
        ("mutates", RestrictedExpression::new_bool(contract.effect_class().mutates())),
        ("confirmation_required", RestrictedExpression::new_bool(transactional.confirmation_required)),
        ("tenant_scoped", RestrictedExpression::new_bool(security.tenant_scoped)),
        ("required_scopes", texts(&security.required_scopes)),
        ("egress", text(egress(security.egress_policy))),
    ];
    let (classification, sensitivity) = sensitivity(security.data_classification);
    attributes.push(("data_classification", text(classification)));
    attributes.push(("sensitivity", RestrictedExpression::new_long(sensitivity)));
    if !facts.tenants.is_empty() {
        attributes.push(("tenants", texts(facts.tenants)));
    }
    if let Some(behaviour) = &contract.behaviour {
        let behaviour = RestrictedExpression::new_record([
            ("mutability".to_owned(), text(behaviour.mutability.word())),
            ("action".to_owned(), text(behaviour.action.word())),
            ("output_domain".to_owned(), text(behaviour.output_domain.word())),
        ])?;
        attributes.push(("behaviour", behaviour));
    }
    Ok(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

const fn risk(class: SideEffectClass) -> i64 {
    match class {
        SideEffectClass::ReadOnly => 0,
        SideEffectClass::EphemeralWrite => 1,
        SideEffectClass::LowRiskInternal => 2,
        SideEffectClass::MediumRiskWrite => 3,
        SideEffectClass::HighRiskExternal => 4,
        SideEffectClass::CriticalMutation => 5,
    }
}

const fn sensitivity(classification: DataClassification) -> (&'static str, i64) {
    match classification {
        DataClassification::Public => ("public", 0),
        DataClassification::Internal => ("internal", 1),
        DataClassification::Confidential => ("confidential", 2),
        DataClassification::Regulated => ("regulated", 3),
        DataClassification::Secret => ("secret", 4),
    }
}

const fn egress(policy: EgressPolicy) -> &'static str {
    match policy {
        EgressPolicy::None => "none",
        EgressPolicy::AllowlistedDomains => "allowlisted_domains",
        EgressPolicy::PrivateNetworkOnly => "private_network_only",
        EgressPolicy::UnrestrictedWithApproval => "unrestricted_with_approval",
    }
}

fn engine(tool: &str, reason: &impl ToString) -> VocabularyError {
    VocabularyError::Engine { tool: tool.to_owned(), reason: reason.to_string() }
}
