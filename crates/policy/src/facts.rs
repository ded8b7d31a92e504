//! What policies know about one tool: the facts of its contract, and the types of its arguments. Cedar's form of them is built
//! on demand, because a gateway has thousands of tools and Cedar's form has many times the size of the facts.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use cedar_policy::{Entity, EntityUid, ExpressionConstructionError, RestrictedExpression};
use serde_json::Value;
use servanda_approval::ApprovalFacts;
use servanda_contract::{
    ToolContract,
    schema::CompiledSchema,
    shared::Shared,
    tool::{
        ApprovalTerms, DataClassification, EffectDeclaration, EgressPolicy, Security, SideEffectClass, Transactional,
    },
};

use crate::{
    entity_types::{CALL, EntityTypes, uid},
    types::{Attribute, arguments_of},
    unseen::UnseenArgument,
};

/// The facts of one tool, the same for calls of every class.
#[derive(Debug)]
pub(crate) struct CedarToolFacts {
    pub name: String,
    pub upstream: Arc<str>,
    version: Arc<str>,
    owner: Arc<str>,
    mutates: bool,
    security: Shared<Security>,
    transactional: Shared<Transactional>,
    effect: Option<Shared<EffectDeclaration>>,
    approval: Option<Shared<ApprovalTerms>>,
    /// Mutability, action and output domain.
    behaviour: Option<[&'static str; 3]>,
    tenants: Arc<BTreeSet<String>>,
    names: Arc<EntityTypes>,
    input: Arc<CompiledSchema>,
    parameters: OnceLock<VisibleArguments>,
}

/// What policies can see of a tool's arguments.
#[derive(Debug)]
pub(crate) struct VisibleArguments {
    pub arguments: BTreeMap<String, Attribute>,
    /// The parts of its arguments that policies cannot see.
    pub unseen: Vec<UnseenArgument>,
    /// It accepts arguments that its contract does not declare.
    pub open: bool,
}

/// Texts and sets that the tools of one vocabulary share.
#[derive(Debug, Default)]
pub(crate) struct FactInterner {
    texts: HashMap<String, Arc<str>>,
    tenants: HashMap<String, Arc<BTreeSet<String>>>,
}

impl FactInterner {
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let known: Arc<str> = text.into();
        self.texts.insert(text.to_owned(), Arc::clone(&known));
        known
    }

    /// The tenants of an upstream, which are the same for each of its tools.
    fn tenants(&mut self, upstream: &str, tenants: &BTreeSet<String>) -> Arc<BTreeSet<String>> {
        match self.tenants.get(upstream) {
            Some(known) if **known == *tenants => Arc::clone(known),
            _ => {
                let known = Arc::new(tenants.clone());
                self.tenants.insert(upstream.to_owned(), Arc::clone(&known));
                known
            }
        }
    }
}

impl CedarToolFacts {
    pub(crate) fn from_contract(
        contract: &ToolContract,
        tenants: &BTreeSet<String>,
        input: Arc<CompiledSchema>,
        names: Arc<EntityTypes>,
        common: &mut FactInterner,
    ) -> Self {
        let behaviour = contract.behaviour.as_ref();
        let upstream = &contract.binding.upstream;
        Self {
            name: contract.identity.name.clone(),
            upstream: common.text(upstream),
            version: common.text(&contract.identity.version),
            owner: common.text(&contract.identity.owner),
            mutates: contract.effect_class().mutates(),
            security: contract.security.clone(),
            transactional: contract.transactional.clone(),
            effect: contract.effect.clone(),
            approval: contract.approval.clone(),
            behaviour: behaviour.map(|it| [it.mutability.word(), it.action.word(), it.output_domain.word()]),
            tenants: common.tenants(upstream, tenants),
            names,
            input,
            parameters: OnceLock::new(),
        }
    }

    /// What policies can see of the arguments.
    pub(crate) fn parameters(&self) -> &VisibleArguments {
        self.parameters.get_or_init(|| {
            let schema = Value::Object(self.input.effective_members().into_owned());
            let (arguments, unseen) = arguments_of(&schema);
            VisibleArguments { arguments, unseen, open: CompiledSchema::schema_may_have(&schema, "") }
        })
    }

    /// What the contract says about approvals.
    pub(crate) fn approval(&self) -> ApprovalFacts<'_> {
        let (effect, terms) = (self.effect.as_deref(), self.approval.as_deref());
        ApprovalFacts::from_sections(&self.security, &self.transactional, effect, terms)
    }

    pub(crate) fn resource(&self) -> EntityUid {
        uid(&self.names.tool, &self.name)
    }

    pub(crate) fn action(&self) -> EntityUid {
        self.names.tool_action(&self.name)
    }

    /// The tool in a call of that class, and its action. A call adds the principal.
    pub(crate) fn entities(&self, class: SideEffectClass) -> Result<[Entity; 2], String> {
        let upstream = uid(&self.names.upstream, &self.upstream);
        let attributes = self.attributes(class).map_err(|error| error.to_string())?;
        let tool = Entity::new(self.resource(), attributes, HashSet::from([upstream]));
        let tool = tool.map_err(|error| error.to_string())?;
        let action = Entity::new_no_attrs(self.action(), HashSet::from([uid(&self.names.action, CALL)]));
        Ok([tool, action])
    }

    fn attributes(
        &self,
        class: SideEffectClass,
    ) -> Result<HashMap<String, RestrictedExpression>, ExpressionConstructionError> {
        let (security, transactional) = (&self.security, &self.transactional);
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let mut attributes = vec![
            ("name", text(&self.name)),
            ("version", text(&self.version)),
            ("upstream", text(&self.upstream)),
            ("owner", text(&self.owner)),
            ("side_effect_class", text(class.word())),
            ("risk", RestrictedExpression::new_long(risk(class))),
            ("mutates", RestrictedExpression::new_bool(self.mutates)),
            ("confirmation_required", RestrictedExpression::new_bool(transactional.confirmation_required)),
            ("tenant_scoped", RestrictedExpression::new_bool(security.tenant_scoped)),
            ("required_scopes", texts(&security.required_scopes)),
            ("egress", text(egress(security.egress_policy))),
        ];
        let (classification, sensitivity) = sensitivity(security.data_classification);
        attributes.push(("data_classification", text(classification)));
        attributes.push(("sensitivity", RestrictedExpression::new_long(sensitivity)));
        if !self.tenants.is_empty() {
            attributes.push(("tenants", texts(&*self.tenants)));
        }
        if let Some([mutability, action, output_domain]) = self.behaviour {
            let behaviour = RestrictedExpression::new_record([
                ("mutability".to_owned(), text(mutability)),
                ("action".to_owned(), text(action)),
                ("output_domain".to_owned(), text(output_domain)),
            ])?;
            attributes.push(("behaviour", behaviour));
        }
        Ok(attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> RestrictedExpression {
    RestrictedExpression::new_set(texts.into_iter().map(|text| RestrictedExpression::new_string(text.clone())))
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

pub(crate) const fn sensitivity(classification: DataClassification) -> (&'static str, i64) {
    match classification {
        DataClassification::Public => ("public", 0),
        DataClassification::Internal => ("internal", 1),
        DataClassification::Confidential => ("confidential", 2),
        DataClassification::Regulated => ("regulated", 3),
        DataClassification::Secret => ("secret", 4),
    }
}

pub(crate) const fn egress(policy: EgressPolicy) -> &'static str {
    match policy {
        EgressPolicy::None => "none",
        EgressPolicy::AllowlistedDomains => "allowlisted_domains",
        EgressPolicy::PrivateNetworkOnly => "private_network_only",
        EgressPolicy::UnrestrictedWithApproval => "unrestricted_with_approval",
    }
}
